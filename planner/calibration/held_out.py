"""Predictions of runs that did not choose the constants: folds of every source, or whole sources left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from planner import catalog
from planner.calibration.consensus import beliefs, expected, stated
from planner.calibration.fit import of_framework
from planner.calibration.observations import step_times
from planner.calibration.profiles import build, usable
from planner.evaluation import evaluate
from planner.rows.frameworks import profile

if TYPE_CHECKING:
    import pandas as pd

    from planner.schema.framework import Framework

Held = Literal["folds", "sources"]

FOLDS = 5


def held_out(frame: pd.DataFrame, held: Held, report: Callable[[str], None] | None = None) -> pd.DataFrame:
    """``frame`` priced with constants that its own run, or its own source, had no part in.

    ``folds``: every framework is fitted five times, each time without a fifth of its runs, drawn at random, which it
    then predicts. ``sources``: for each source, its framework is fitted on the other sources that used it, and where
    there is none has the constants of its relatives (`planner.calibration.consensus`).
    """
    import pandas as pd

    parts = list(_by_folds(frame, report) if held == "folds" else _by_sources(frame, report))
    return pd.concat(parts).loc[frame.index]


def _by_folds(frame: pd.DataFrame, report: Callable[[str], None] | None) -> Iterator[pd.DataFrame]:
    draw = np.random.default_rng(1)
    for name in catalog.names("framework"):
        runs = of_framework(frame, name)
        if runs.empty:
            continue
        fold = draw.permutation(len(runs)) % FOLDS
        for number in range(FOLDS):
            if report:
                report(f"{name}, fold {number + 1} of {FOLDS}")
            others = usable(runs[fold != number])
            fitted = _fitted(others, profile(name), _relatives(frame, ()))
            yield evaluate(runs[fold == number], {name: fitted})


def _by_sources(frame: pd.DataFrame, report: Callable[[str], None] | None) -> Iterator[pd.DataFrame]:
    for source, runs in frame.groupby("src_key", sort=True):
        if report:
            report(f"without {source}")
        profiles = {}
        for name in catalog.names("framework"):
            if len(of_framework(runs, name)):
                others = of_framework(frame[frame["src_key"] != source], name)
                profiles[name] = _fitted(usable(others), profile(name), _relatives(frame, (source,)))
        yield evaluate(runs, profiles)


def _relatives(frame: pd.DataFrame, left_out: tuple[object, ...]) -> list[Framework]:
    """The shipped profiles that no run of the sources left out had a part in."""
    touched = frame[frame["src_key"].isin(left_out)] if left_out else frame.iloc[:0]
    return [profile(name) for name in catalog.names("framework") if of_framework(touched, name).empty]


def _fitted(runs: pd.DataFrame, framework: Framework, relatives: list[Framework]) -> Framework:
    accelerators = catalog.names("hardware")
    start = expected(framework, relatives, accelerators)
    if step_times(runs).notna().sum() == 0:
        return start
    return build(runs, stated(framework), beliefs(start)).framework
