"""``planner calibrate``: a profile of one's own framework and machine from one's own runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import output
from planner.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from planner.calibration.fit import Calibration
    from planner.schema.framework import Framework

FEWEST_RUNS = 5


def calibrate(
    rows: Annotated[Path, typer.Argument(metavar="MEASURED.csv", help="Measured runs, one a row.")],
    hardware: Annotated[
        str | None, typer.Option(metavar="NAME", help="The accelerator: of rows that name none, and the only one used.")
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The profile to start from; without it, the one that most rows name."),
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The name of the new profile.")] = "calibrated",
    target: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the profile to a TOML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Fit the constants of a framework's profile to measured runs (5 or more).

    What the runs cannot tell stays as it is in the profile that the fit starts from. Use the result as
    framework = "FILE" in a problem, or with `planner evaluate --framework FILE`.
    """
    output.check_target(target)
    from planner.cli.csv_input import read_rows

    frame = _selected(read_rows(rows).frame, hardware, str(rows))
    from planner.calibration.consensus import beliefs
    from planner.calibration.fit import fit, with_values
    from planner.calibration.profiles import to_toml
    from planner.evaluation import evaluate

    start = _start(frame, framework).model_copy(update={"on": {}})
    usable = _usable(frame, evaluate(frame), str(rows))
    believed = beliefs(start)
    calibration = fit(usable, start, believed)
    before = fit(usable, start, [])
    held_out = _held_out(usable, start, believed)
    values = {estimate.name: float(f"{estimate.value:.4g}") for estimate in calibration.estimates}
    profile = with_values(start, values).model_copy(
        update={"name": name, "names": (), "source": f"{len(usable)} runs of {rows.name}, from {start.name}"}
    )
    if target is not None:
        output.write_text(target, to_toml(profile))
    if as_json:
        output.emit(output.as_json(_document(calibration, before, held_out, len(usable), start.name)))
    else:
        output.emit(output.render(*_report(calibration, before, held_out, len(usable), start.name)))


def _selected(frame: pd.DataFrame, hardware: str | None, origin: str) -> pd.DataFrame:
    """The rows of one accelerator. Raises `InputError` where there is none, or several and none is named."""
    from planner.rows.systems import read_accelerator

    if "gpu" not in frame.columns:
        frame["gpu"] = None
    if hardware is None:
        kinds = sorted(frame["gpu"].dropna().astype(str).unique())
        if len(kinds) != 1 or frame["gpu"].isna().any():
            shown = ", ".join(kinds) or "none"
            raise InputError(f"{origin}: gpu: one accelerator is needed, rows name {shown}: choose by --hardware")
        return frame
    try:
        wanted = read_accelerator(hardware)
    except ValueError as error:
        raise InputError(f"--hardware {hardware!r}: {error}") from None
    frame["gpu"] = frame["gpu"].fillna(hardware)

    def same(text: object) -> bool:
        try:
            return read_accelerator(str(text)) == wanted
        except ValueError:
            return False

    kept = frame[[same(text) for text in frame["gpu"]]]
    if kept.empty:
        raise InputError(f"{origin}: gpu: no row is of {hardware}")
    if len(kept) < len(frame):
        output.note(f"{len(frame) - len(kept):,} rows of other accelerators are left out")
    return kept


def _start(frame: pd.DataFrame, framework: str | None) -> Framework:
    from planner import catalog
    from planner.rows.frameworks import frameworks_of, profile

    if framework is not None:
        return catalog.load_framework(framework)
    names = frameworks_of(frame)
    return profile(max(set(names), key=names.count))


def _usable(frame: pd.DataFrame, priced: pd.DataFrame, origin: str) -> pd.DataFrame:
    """The runs with a plan and a time. Raises `InputError` where there are too few, with the first reasons."""
    from planner.calibration.observations import step_times

    timed = step_times(frame).notna()
    sound = (priced["pred_error"] == "") & timed
    if sound.sum() < FEWEST_RUNS:
        reasons = [
            f"{origin}: line {place + 2}: {reason or 'has no step_time_s and no tokens_per_s_per_gpu'}"
            for place, (reason, good) in enumerate(zip(priced["pred_error"], sound, strict=True))
            if not good
        ]
        needed = f"{origin}: {sound.sum()} runs can be used, at least {FEWEST_RUNS} are needed"
        raise InputError([needed, *reasons[:5]])
    if not sound.all():
        output.note(f"{int((~sound).sum()):,} rows without a plan or a time are left out")
    return frame[sound]


def _held_out(frame: pd.DataFrame, start: Framework, believed: Any) -> float:
    """Median absolute error of runs that had no part in the constants, each left out with every fifth."""
    import numpy as np

    from planner.calibration.fit import fit, with_values

    fold = np.random.default_rng(1).permutation(len(frame)) % FEWEST_RUNS
    errors: list[float] = []
    for number in range(FEWEST_RUNS):
        fitted = with_values(start, fit(frame[fold != number], start, believed).values)
        errors += list(np.abs(fit(frame[fold == number], fitted, []).ratios - 1))
    return float(np.median(errors))


def _document(calibration: Calibration, before: Calibration, held_out: float, runs: int, start: str) -> dict[str, Any]:
    return {
        "runs": runs,
        "framework": start,
        "median_error_before": before.median_error,
        "median_error": calibration.median_error,
        "median_error_held_out": held_out,
        "constants": {
            estimate.name: {"value": estimate.value, "low": estimate.low, "high": estimate.high,
                            "identified": estimate.identified}
            for estimate in calibration.estimates
        },
    }  # fmt: skip


def _report(calibration: Calibration, before: Calibration, held_out: float, runs: int, start: str) -> list[Any]:
    made = output.table("Constant", "value", "95 % interval", "the runs")
    for estimate in calibration.estimates:
        told = "tell it" if estimate.identified else "do not tell it"
        made.add_row(estimate.name, f"{estimate.value:.3g}", f"{estimate.low:.3g} to {estimate.high:.3g}", told)
    unknown = [estimate.name for estimate in calibration.estimates if not estimate.identified]
    words = (
        f"{runs} runs; median error of the step time {before.median_error:.1%} with {start} as it is, "
        f"{calibration.median_error:.1%} with these constants, {held_out:.1%} on runs held out."
    )
    if unknown:
        words += (
            f"\nNot told by these runs, and mostly as in {start}: {', '.join(unknown)}. Runs that differ more (in degrees, "
            "micro-batch, length of the sequence, number of nodes) would tell more."
        )
    return [made, words]
