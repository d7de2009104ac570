"""Growth rates by log-linear least squares: ``log10(value)`` on the date, over all points of a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from planner.errors import InputError
from planner.memory_wall import published
from planner.memory_wall.published import Legend, Point

DAYS_OF_YEAR = 365.25
MOORE = 2.0  # times in two years: the reference line of the figures


@dataclass(frozen=True)
class Fit:
    """``value = 10^(intercept + slope (years since 1970))``; ``slope`` in decades of value a year."""

    slope: float
    intercept: float
    points: int
    first: date
    last: date
    deviation: float  # root mean square of the residuals, in decades

    def rate(self, years: float) -> float:
        """How many times the value grows in so many years: ``10^(years slope)``."""
        return float(10.0 ** (years * self.slope))

    def at(self, when: date) -> float:
        """The fitted value on a day."""
        return float(10.0 ** (self.intercept + self.slope * years_of(when)))

    @property
    def doubling_years(self) -> float:
        """Years in which the value doubles."""
        return float(np.log10(2.0) / self.slope)


@dataclass(frozen=True)
class Trend:
    """One series with its fit, and what the figure's legend says of it."""

    legend: Legend
    points: tuple[Point, ...]
    fit: Fit

    @property
    def deviation(self) -> float:
        """How far the fitted growth is from the printed one, relatively."""
        return self.fit.rate(self.legend.years) / self.legend.growth - 1


def years_of(when: date) -> float:
    """Years since 1970, of 365.25 days."""
    return (when - date(1970, 1, 1)).days / DAYS_OF_YEAR


def fit(points: Sequence[Point]) -> Fit:
    """The least-squares line through the points that are marked as fitted.

    Raises `InputError` where there are not two days, or a value is not above 0.
    """
    used = [point for point in points if point.fitted]
    wrong = [point.name for point in used if not point.value > 0]
    if wrong:
        raise InputError(f"{wrong[0]}: a value that is not above 0 has no growth rate")
    if len({point.date for point in used}) < 2:
        raise InputError(f"{len(used)} points: a growth rate needs points of two days")
    years = np.array([years_of(point.date) for point in used])
    logs = np.log10([point.value for point in used])
    centred = years - years.mean()
    slope = float(centred @ logs / (centred @ centred))
    intercept = float(logs.mean() - slope * years.mean())
    residuals = logs - intercept - slope * years
    days = [point.date for point in used]
    return Fit(slope, intercept, len(used), min(days), max(days), float(np.sqrt(np.mean(residuals**2))))


def trends() -> list[Trend]:
    """All trend lines of the figures, fitted anew, beside what the legends of the 2024 edition's figures print."""
    memory = [Point(chip.name, chip.date, 1e9 * chip.memory_gb, True) for chip in published.accelerators()]
    points = {"model_size": published.sizes(), "training_compute": published.compute(), "accelerator_memory": memory}
    found = []
    for legend in published.legends():
        series = points.get(legend.key) or published.hardware(legend.key)
        found.append(Trend(legend, tuple(series), fit(series)))
    return found
