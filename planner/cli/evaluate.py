"""``planner evaluate``: the predicted cost of given plans, one a row of a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import output

if TYPE_CHECKING:
    import pandas as pd

MOST_ERRORS = 5  # shown
PREDICTIONS = (
    ("pred_step_time_s", "step time, s"),
    ("pred_tokens_per_s_per_gpu", "tokens/s for each accelerator"),
    ("pred_tflops_per_gpu", "TFLOP/s for each accelerator"),
    ("pred_mfu", "MFU"),
    ("pred_peak_mem_gb", "peak memory, GB"),
)


def evaluate_rows(
    rows: Annotated[Path, typer.Argument(metavar="ROWS.csv", help="A CSV file with one plan a row.")],
    target: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the rows with their predictions to a CSV file."),
    ] = None,
    framework: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Price every row as a run of this framework (a profile's name or file)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a summary.")] = False,
) -> None:
    """Predict time and memory of given plans.

    A row that cannot be evaluated keeps its place and says why in ``pred_error``; the others are unaffected.
    """
    output.check_target(target)

    from planner.cli.csv_input import read_rows

    given = read_rows(rows)
    from planner.cli.csv_output import write_rows
    from planner.evaluation import evaluate  # heavy: after the file is known to be good

    if framework is None:
        result = evaluate(given.frame)
    else:
        from planner import catalog
        from planner.rows.frameworks import UNKNOWN

        profile = catalog.load_framework(framework)  # before the long work
        told = given.frame.get("framework")
        result = evaluate(given.frame.assign(framework=""), {UNKNOWN: profile})
        result = result.drop(columns="framework") if told is None else result.assign(framework=told)
    if target is not None:
        added = [name for name, _ in PREDICTIONS] + ["pred_fits", "pred_error"]
        output.write_atomically(target, lambda place: write_rows(place, given, result, added))
    output.emit(output.as_json(_document(result)) if as_json else _summary(result))


def _errors(result: pd.DataFrame) -> dict[int, str]:
    """The line of the file (the header is line 1) and the reason of each row that failed."""
    reasons = result["pred_error"].fillna("").astype(str)
    return {place + 2: reason for place, reason in enumerate(reasons) if reason}


def _document(result: pd.DataFrame) -> dict[str, Any]:
    """Counts and predictions; missing values are null."""
    predicted = [name for name in result.columns if name.startswith("pred_")]
    keys = [name for name in ("id",) if name in result.columns]
    records = result[keys + predicted].to_dict(orient="records")
    return {
        "rows": len(result),
        "failed": len(_errors(result)),
        "predictions": [{str(key): _plain(value) for key, value in record.items()} for record in records],
    }


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    missing = value is None or value != value or value in (float("inf"), float("-inf")) or str(value) == "<NA>"
    return None if missing else value


def _summary(result: pd.DataFrame) -> str:
    import pandas as pd

    errors = _errors(result)
    lines = [f"{len(result):,} rows: {len(result) - len(errors):,} evaluated, {len(errors):,} failed"]
    made = output.table("Predicted", "least", "median", "most")
    for name, label in PREDICTIONS:
        values = pd.to_numeric(result[name], errors="coerce").dropna() if name in result else pd.Series(dtype=float)
        if len(values):
            made.add_row(label, *(f"{value:,.4g}" for value in (values.min(), values.median(), values.max())))
    fits = result["pred_fits"]
    tail = []
    if len(errors) < len(result):
        tail.append(f"{int(fits.sum()):,} fit in memory, {int((~fits).sum()):,} do not")
    tail += [f"line {line}: {reason}" for line, reason in list(errors.items())[:MOST_ERRORS]]
    if len(errors) > MOST_ERRORS:
        tail.append(f"... and {len(errors) - MOST_ERRORS:,} more (pred_error in the output says why)")
    parts = [*lines, made] if made.row_count else list(lines)
    return output.render(*parts, "\n".join(tail)) if tail else output.render(*parts)
