"""Measured runs as observations of the step time: the time of each, and why a run does not count."""

from __future__ import annotations

import numpy as np
import pandas as pd


def step_times(frame: pd.DataFrame) -> pd.Series:
    """Seconds of a step of each run; NaN where nothing says it.

    ``step_time_s``, else global_batch x seq_len tokens over ``tokens_per_s_per_gpu`` x ``n_gpus``, else
    ``step_time_derived_s`` (an inversion of another published rate).
    """
    seconds = _numbers(frame, "step_time_s")
    tokens = _numbers(frame, "global_batch") * _numbers(frame, "seq_len")
    by_rate = tokens / (_numbers(frame, "tokens_per_s_per_gpu") * _numbers(frame, "n_gpus"))
    seconds = seconds.fillna(by_rate).fillna(_numbers(frame, "step_time_derived_s"))
    return seconds.where(np.isfinite(seconds) & (seconds > 0))


def _numbers(frame: pd.DataFrame, name: str) -> pd.Series:
    if name not in frame.columns:
        return pd.Series(np.nan, index=frame.index)
    return pd.to_numeric(frame[name], errors="coerce")
