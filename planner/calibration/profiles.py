"""A framework's profile from runs on one or several accelerators, and its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.calibration.fit import Calibration, fit, with_values
from planner.calibration.observations import step_times
from planner.calibration.parameters import PARAMETERS, Parameter
from planner.calibration.scores import SLOW
from planner.errors import InputError
from planner.rows.systems import read_accelerator
from planner.schema.framework import Assumptions, Framework

if TYPE_CHECKING:
    import pandas as pd

#: An accelerator has constants of its own from this many runs on, where there are several.
FEWEST_RUNS = 8

#: How far an accelerator's constants may lie from the framework's, in parts of what is believed of either.
CLOSENESS = 0.5

#: More runs of one source and accelerator than these add nothing: a sample of them is fitted.
LARGEST_SAMPLE = 250


@dataclass(frozen=True)
class Profile:
    """A calibrated framework: over all its runs, and on each accelerator that has enough of them."""

    framework: Framework
    overall: Calibration
    by_hardware: dict[str, Calibration]


def build(frame: pd.DataFrame, framework: Framework, beliefs: Sequence[Parameter] = PARAMETERS) -> Profile:
    """Fit ``framework`` to the runs in ``frame``: first over all, then on each accelerator close to that.

    Raises `InputError` where no run can be priced and has a time.
    """
    runs = _sample(frame[step_times(frame).notna()])
    overall = fit(runs, framework, beliefs)
    hardware = runs["gpu"].map(_hardware)
    framework = with_values(framework, _rounded(overall.values))
    framework = framework.model_copy(update={"measured_on": tuple(sorted(hardware.dropna().unique()))})
    found: dict[str, Calibration] = {}
    if hardware.nunique() > 1:
        near = [_close(belief, overall.values[belief.name]) for belief in beliefs]
        for name in sorted(hardware.dropna().unique()):
            if (hardware == name).sum() >= FEWEST_RUNS:
                found[name] = fit(runs[hardware == name], framework, near, name)
        for name, calibration in found.items():
            framework = with_values(framework, _rounded(calibration.values), name)
    return Profile(framework, overall, found)


def usable(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs of ``frame`` that constants can be learnt from: pipelines below a tenth of the peak are left out.

    In the only large sweep of such plans (the Ultra-Scale Playbook's) they wait for about a second in every micro-batch,
    alike for models of 1 and of 80 billion parameters, and not every time: that is no cost of the plan.
    """
    import pandas as pd

    if "mfu" not in frame.columns or "pp" not in frame.columns:
        return frame
    share, stages = pd.to_numeric(frame["mfu"], errors="coerce"), pd.to_numeric(frame["pp"], errors="coerce")
    return frame[~((share < SLOW) & (stages > 1))]


def to_toml(framework: Framework) -> str:
    """The profile as a file of ``instances/frameworks``."""
    lines = ["schema = 1"]
    for key in ("name", "source", "date", "note"):
        text = str(getattr(framework, key)).replace("\\", "\\\\").replace('"', '\\"')
        if text:
            lines.append(f'{key} = "{text}"')
    if framework.names:
        lines.append("names = [" + ", ".join(f"'{pattern}'" for pattern in framework.names) + "]")
    for key in ("family", "zero", "measured_on"):
        value = getattr(framework, key)
        if value not in ("", ()):
            lines.append(f"{key} = {_toml(value)}")
    tables = {"assumptions": framework.assumptions} | {f"on.{name}": own for name, own in framework.on.items()}
    for title, assumptions in tables.items():
        said = [name for name in Assumptions.model_fields if name in assumptions.model_fields_set]
        if said:
            lines += ["", f"[{title}]", *(f"{name} = {_toml(getattr(assumptions, name))}" for name in said)]
    return "\n".join(lines) + "\n"


def _close(belief: Parameter, value: float) -> Parameter:
    margin = 1e-3 * (belief.high - belief.low) if belief.fraction else 0.0
    low, high = belief.low + margin, belief.high - margin
    factor = 1.0 if belief.fraction else 1.001
    return replace(belief, usual=min(max(value, low * factor), high / factor), spread=CLOSENESS * belief.spread)


def _sample(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    keys = [key for key in ("src_key", "gpu") if key in frame.columns]
    groups = [group.sample(min(len(group), LARGEST_SAMPLE), random_state=1)
              for _, group in frame.groupby(keys, dropna=False)]  # fmt: skip
    if not groups:
        raise InputError("no run has a time: step_time_s or tokens_per_s_per_gpu is needed")
    return pd.concat(groups).sort_index()


def _hardware(text: object) -> str | None:
    try:
        record = read_accelerator(str(text))
    except ValueError:
        return None
    return record.name if record else None


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.3g}") for name, value in values.items()}


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
