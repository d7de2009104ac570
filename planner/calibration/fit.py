"""Constants of a framework's profile by least squares: as few as the runs can tell, the others as believed before.

Minimised is the sum of the runs' squared relative errors of the step time, large ones taken less hard (soft L1) since
published runs hold slow nodes, and of the constants' squared distances from what was believed of them, in standard
deviations of that belief. The intervals are those of the linearised problem at the solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.algebra.expressions import Array
from planner.calibration.observations import step_times
from planner.calibration.parameters import PARAMETERS, Parameter
from planner.errors import InputError
from planner.evaluation import evaluate
from planner.rows.frameworks import frameworks_of

if TYPE_CHECKING:
    import pandas as pd

    from planner.schema.framework import Framework

#: Relative error of one run that is taken as usual: the scale of the fit, and where errors begin to count less.
USUAL_ERROR = 0.05

#: Runs of one source beyond this many count together as this many.
MOST_RUNS = 40

#: A constant whose standard deviation the runs shrink to less than this part of the belief's is identified.
IDENTIFIED = 0.7


@dataclass(frozen=True)
class Estimate:
    """A fitted constant: its value, the interval that holds it with 95 %, and whether the runs say anything of it."""

    name: str
    value: float
    low: float
    high: float
    identified: bool


@dataclass(frozen=True)
class Calibration:
    """The fitted constants, and predicted over measured time of every run that counted."""

    estimates: tuple[Estimate, ...]
    ratios: Array

    @property
    def values(self) -> dict[str, float]:
        """Constants by name."""
        return {estimate.name: estimate.value for estimate in self.estimates}

    @property
    def median_error(self) -> float:
        """Median absolute relative error."""
        return float(np.median(np.abs(self.ratios - 1)))


def fit(
    frame: pd.DataFrame,
    framework: Framework,
    beliefs: Sequence[Parameter] = PARAMETERS,
    hardware: str | None = None,
) -> Calibration:
    """The constants of ``framework``, or of it on the accelerator ``hardware``, that explain the runs in ``frame``.

    Every run is priced as one of that framework; without beliefs nothing is fitted. Raises `InputError` where no run can
    be priced and has a time, or SciPy is missing.
    """
    runs = frame.copy()
    runs["framework"] = framework.name
    measured = step_times(runs).to_numpy()
    first = evaluate(runs, {framework.name: framework})
    counted = np.isfinite(measured) & (first["pred_error"] == "").to_numpy()
    if not counted.any():
        raise InputError("no run has both a plan that can be priced and a time")
    runs, measured = runs[counted], measured[counted]
    weights = _weights(runs)

    def ratios(position: Array) -> Array:
        changed = with_values(framework, _values(beliefs, position), hardware)
        predicted = evaluate(runs, {framework.name: changed})["pred_step_time_s"].to_numpy(dtype=float)
        return np.asarray(predicted / measured)

    def residuals(position: Array) -> Array:
        error = np.log(ratios(position)) / USUAL_ERROR
        soft = np.sign(error) * np.sqrt(2 * (np.sqrt(1 + error**2) - 1))
        distance = [(place - belief.inward(belief.usual)) / belief.spread
                    for place, belief in zip(position, beliefs, strict=True)]  # fmt: skip
        return np.concatenate([weights * soft, distance])

    if not beliefs:
        return Calibration((), ratios(np.zeros(0)))
    least_squares = _least_squares()
    low = np.array([belief.inward(belief.low) for belief in beliefs])
    high = np.array([belief.inward(belief.high) for belief in beliefs])
    start = np.clip([belief.inward(belief.usual) for belief in beliefs], low + 1e-6, high - 1e-6)
    found = least_squares(residuals, start, bounds=(low, high), diff_step=1e-3, xtol=1e-4, ftol=1e-4, max_nfev=30)
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    return Calibration(_estimates(beliefs, found.x, np.sqrt(np.diag(covariance))), ratios(found.x))


def _least_squares() -> Any:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise InputError("calibration needs the package 'scipy' (pip install 'planner[calibration]')") from None
    return least_squares


def with_values(framework: Framework, values: dict[str, float], hardware: str | None = None) -> Framework:
    """``framework`` with these constants, everywhere or on one accelerator only."""
    if hardware is None:
        return framework.model_copy(update={"assumptions": _updated(framework.assumptions, values)})
    from planner.schema.framework import Assumptions

    own = framework.on.get(hardware, Assumptions())
    return framework.model_copy(update={"on": {**framework.on, hardware: _updated(own, values)}})


def _updated(assumptions: Any, values: dict[str, float]) -> Any:
    said = {name: getattr(assumptions, name) for name in assumptions.model_fields_set}
    return type(assumptions).model_construct(**(said | values))


def of_framework(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The runs of ``frame`` whose framework the profile ``name`` describes."""
    return frame[[found == name for found in frameworks_of(frame)]]


def _weights(runs: pd.DataFrame) -> Array:
    """Each run's weight: sources count alike from `MOST_RUNS` runs on."""
    if "src_key" not in runs.columns:
        return np.full(len(runs), np.sqrt(min(1.0, MOST_RUNS / len(runs))))
    keys = runs["src_key"].astype(str) + runs["gpu"].astype(str)
    counts = keys.map(keys.value_counts()).to_numpy(dtype=float)
    return np.sqrt(np.minimum(1.0, MOST_RUNS / counts))


def _values(beliefs: Sequence[Parameter], position: Array) -> dict[str, float]:
    return {belief.name: belief.outward(float(place)) for belief, place in zip(beliefs, position, strict=True)}


def _estimates(beliefs: Sequence[Parameter], position: Array, deviations: Array) -> tuple[Estimate, ...]:
    return tuple(
        Estimate(
            belief.name,
            belief.outward(place),
            max(belief.low, belief.outward(place - 1.96 * deviation)),
            min(belief.high, belief.outward(place + 1.96 * deviation)),
            bool(deviation < IDENTIFIED * belief.spread),
        )
        for belief, place, deviation in zip(beliefs, map(float, position), map(float, deviations), strict=True)
    )
