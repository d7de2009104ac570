"""How good predictions are: errors, bias, order and regret, of each source and accelerator."""

from __future__ import annotations

import numpy as np
import pandas as pd

from planner.calibration.observations import step_times

#: Runs of one model on one cluster with one batch: plans between which somebody could have chosen.
CHOICE = ("src_key", "model", "gpu", "n_gpus", "global_batch", "seq_len", "precision")

#: A source's share of peak below which its runs are counted apart.
SLOW = 0.10


def scores(priced: pd.DataFrame, by: tuple[str, ...] = ("src_key", "gpu")) -> pd.DataFrame:
    """One row for each group of ``by``; ``priced`` is a table of `planner.evaluation.evaluate`.

    ``runs`` (with a time), ``median`` and ``p90`` of the absolute relative error of the step time, ``bias`` (median of
    predicted / measured, less 1), ``rank`` (Spearman's correlation of predicted and measured rate of tokens on one
    accelerator), ``choices`` (groups of two plans or more that differ in the plan alone), ``regret`` (the median over
    those of how much slower the plan ranked first is than the fastest one) and the same errors of the peak memory.
    """
    frame = priced.copy()
    frame["measured_s"] = step_times(frame)
    frame["error"] = frame["pred_step_time_s"] / frame["measured_s"] - 1
    frame["memory_error"] = np.nan
    if "peak_mem_gb" in frame.columns:
        measured = pd.to_numeric(frame["peak_mem_gb"], errors="coerce")
        frame["memory_error"] = frame["pred_peak_mem_gb"] / measured - 1
    keys = [key for key in by if key in frame.columns]
    rows = []
    for key, group in frame.groupby(keys, dropna=False, sort=True):
        timed = group[group["error"].notna()]
        memory = group["memory_error"].dropna().abs()
        chosen = regrets(timed)
        rows.append(dict(zip(keys, key, strict=True)) | {
            "runs": len(timed), "median": timed["error"].abs().median(), "p90": timed["error"].abs().quantile(0.9),
            "bias": timed["error"].median(), "rank": _rank(timed), "choices": len(chosen),
            "regret": float(np.median(chosen)) if chosen else np.nan,
            "memory_runs": len(memory), "memory_median": memory.median(), "memory_p90": memory.quantile(0.9),
        })  # fmt: skip
    return pd.DataFrame(rows)


def regrets(timed: pd.DataFrame) -> list[float]:
    """For each group of plans that could replace each other: time of the one predicted fastest over the fastest, less 1."""
    keys = [key for key in CHOICE if key in timed.columns]
    found = []
    for _, group in timed.groupby(keys, dropna=False):
        if len(group) > 1:
            picked = group["measured_s"].iloc[int(group["pred_step_time_s"].argmin())]
            found.append(float(picked / group["measured_s"].min() - 1))
    return found


def apart(frame: pd.DataFrame) -> pd.DataFrame:
    """``frame`` with the runs below a tenth of the peak of a source that has its own column ``mfu`` as a source apart."""
    if "mfu" not in frame.columns or "src_key" not in frame.columns:
        return frame
    share = pd.to_numeric(frame["mfu"], errors="coerce")
    slow = (share < SLOW) & (frame["src_key"] == "ultrascale")
    return frame.assign(src_key=frame["src_key"].mask(slow, frame["src_key"] + " (MFU < 10 %)"))


def _rank(timed: pd.DataFrame) -> float:
    if len(timed) < 3:
        return float("nan")
    work = timed["global_batch"] * timed["seq_len"] / timed["n_gpus"]
    ranks = pd.DataFrame({"predicted": work / timed["pred_step_time_s"], "measured": work / timed["measured_s"]}).rank()
    return float(ranks["predicted"].corr(ranks["measured"]))
