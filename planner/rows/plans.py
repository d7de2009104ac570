"""The plan columns of a table: degrees, batch, sharding, recomputation, precision."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from planner.algebra.expressions import Array
from planner.physics.setting import Precision, Recompute
from planner.rows.frameworks import UNKNOWN, frameworks_of, profile
from planner.rows.table import EMPTY, Codes, Table

Attention = Literal["fused", "unfused"]

#: Data-parallel ranks that hold all shards together: all of them, or those in one node.
EVERY, NODE = np.inf, 0.0


@dataclass(frozen=True)
class Plans:
    """One plan a row: whole numbers as floats, of shape (rows,). Rejected rows hold NaN or anything."""

    gpus: Array
    tp: Array
    cp: Array
    pp: Array
    dp: Array
    ep: Array
    etp: Array
    vp: Array
    sequence: Array
    global_batch: Array
    micro_batch: Array
    grad_accum: Array
    sequence_parallel: Array  # 0 or 1
    zero: Array
    group: Array  # ranks that hold all shards together, or `EVERY`, or `NODE`
    recompute: Array
    precision: Array
    attention: tuple[Codes, list[Attention | None]]  # None: as the framework does
    framework: tuple[Codes, list[str]]  # names of profiles


def read_plans(table: Table) -> Plans:
    """The plans of ``table``; rows that have none are rejected.

    An empty cell is unknown, but: one empty degree follows from ``n_gpus``; empty ``tp``, ``cp`` and ``pp`` are 1 where
    ``dp`` is empty too, which then follows; ``vp``, ``ep`` and ``etp`` are 1; ``sp`` is on where tp > 1; recomputation
    is off; ``zero_stage`` is what the framework does by default. ``micro_batch`` follows from ``grad_accum``, if there
    is such a column, or where the global batch is one sequence a rank.
    """
    gpus, degrees = _degrees(table)
    tp, cp, pp, dp = (degrees[name] for name in ("tp", "cp", "pp", "dp"))
    sequence, vp = table.numbers("seq_len"), table.numbers("vp")
    table.reject(np.isnan(sequence) & table.readable("seq_len"), "seq_len is empty: a sequence's tokens are needed")
    global_batch, micro_batch, grad_accum = _batches(table, dp)
    codes, switches = table.parsed("sp", read_switch, None)
    given = np.array([np.nan if switch is None else float(switch) for switch in switches])[codes]
    zero, group = _sharding(table)
    recompute = table.parsed("recompute", read_recompute, Recompute.NONE)
    precision = table.parsed("precision", read_precision, Precision.BF16)
    return Plans(
        gpus, tp, cp, pp, dp,
        ep=_or_one(table.numbers("ep")),
        etp=_or_one(table.numbers("etp")),
        vp=np.where(pp > 1, _or_one(vp), 1.0),
        sequence=sequence,
        global_batch=global_batch,
        micro_batch=micro_batch,
        grad_accum=grad_accum,
        sequence_parallel=np.where(np.isnan(given), tp > 1, given),
        zero=zero,
        group=group,
        recompute=np.array(recompute[1], dtype=float)[recompute[0]],
        precision=np.array(precision[1], dtype=float)[precision[0]],
        attention=table.parsed("attn_impl", read_attention, None),
        framework=_frameworks(table),
    )  # fmt: skip


def _degrees(table: Table) -> tuple[Array, dict[str, Array]]:
    """Accelerators and the four dense degrees, with what is empty inferred."""
    names = ("tp", "cp", "pp", "dp")
    gpus = table.numbers("n_gpus")
    given = np.stack([table.numbers(name) for name in names])
    readable = table.readable("n_gpus", *names)
    missing = np.isnan(given)
    count = missing.sum(axis=0)
    known = np.where(missing, 1.0, given).prod(axis=0)
    gpus = np.where(np.isnan(gpus) & (count == 0), known, gpus)
    table.reject(readable & np.isnan(gpus), "n_gpus is empty and does not follow: give it, or all of tp, cp, pp and dp")
    readable &= ~np.isnan(gpus)
    rest = np.divide(gpus, known)
    derived = np.where(missing[3], 3, missing.argmax(axis=0))  # which degree takes what is left
    degrees = np.where(missing, 1.0, given)
    open_rows = np.flatnonzero(readable & (count > 0) & (missing[3] | (count == 1)))
    degrees[derived[open_rows], open_rows] = rest[open_rows]

    def product_of(row: int) -> str:
        parts = [f"{name} = {value:g}" for name, value in zip(names, given[:, row], strict=True) if not np.isnan(value)]
        return " x ".join(parts) or "1"

    broken = readable & (degrees != np.floor(degrees)).any(axis=0)
    table.reject(broken, lambda row: f"n_gpus = {gpus[row]:g} is no multiple of {product_of(row)}")
    unequal = readable & ~broken & (degrees.prod(axis=0) != gpus)
    table.reject(
        unequal,
        lambda row: (
            f"n_gpus = {gpus[row]:g} is not the product of the degrees, {product_of(row)} is {known[row]:g}"
            + (": give the empty degrees" if count[row] else "")
        ),
    )
    degrees = np.where(readable & ~broken & ~unequal, degrees, np.nan)
    return gpus, dict(zip(names, degrees, strict=True))


def _batches(table: Table, dp: Array) -> tuple[Array, Array, Array]:
    """Global batch, micro-batch, and micro-batches of a step (rounded up), with what is empty inferred."""
    total, micro, steps = (table.numbers(name) for name in ("global_batch", "micro_batch", "grad_accum"))
    usable = ~np.isnan(dp) & table.readable("global_batch", "micro_batch", "grad_accum")
    total = np.where(np.isnan(total), dp * micro * steps, total)
    table.reject(np.isnan(total) & usable, "global_batch is empty: the sequences of a step are needed")
    micro = np.where(np.isnan(micro) & (total == dp), 1.0, micro)
    micro = np.where(np.isnan(micro), total / (dp * steps), micro)
    table.reject(np.isnan(micro) & ~np.isnan(total) & usable,
                 "micro_batch is empty and does not follow: the sequences of a micro-batch are needed")  # fmt: skip
    table.reject(
        total < dp * micro,
        lambda row: f"global_batch = {total[row]:g} is less than dp x micro_batch = {dp[row]:g} x {micro[row]:g}",
    )
    return total, micro, np.ceil(total / (dp * micro) - 1e-9)


def _sharding(table: Table) -> tuple[Array, Array]:
    """ZeRO stage and the size of the groups that hold all shards."""
    framework, names = _frameworks(table)
    codes, values = table.parsed("zero_stage", read_zero, None)
    usual = np.array([profile(name).zero for name in names], dtype=float)[framework]
    stage = np.array([np.nan if value is None else value[0] for value in values])[codes]
    group = np.array([EVERY if value is None else value[1] for value in values])[codes]
    return np.where(np.isnan(stage), usual, stage), group


def _frameworks(table: Table) -> tuple[Codes, list[str]]:
    codes, names = pd.factorize(np.array(frameworks_of(table.frame), dtype=object))
    return codes.astype(np.intp), [str(name) for name in names] or [UNKNOWN]


def _or_one(values: Array) -> Array:
    return np.where(np.isnan(values), 1.0, values)


def read_switch(text: str) -> bool | None:
    """``True``, ``false``, ``1`` ...; None where empty."""
    word = text.lower()
    if word in EMPTY:
        return None
    if word in ("true", "yes", "on", "1", "1.0"):
        return True
    if word in ("false", "no", "off", "0", "0.0"):
        return False
    raise ValueError("must be True or False")


def read_zero(text: str) -> tuple[int, float] | None:
    """(stage, group that holds all shards) of ``zero1 (...)``, ``fsdp (zero3)``, ``hsdp ...``; None where empty.

    ``zero1 in groups of 8`` shards over 8 ranks and replicates beyond; HSDP shards within a node. ZeRO without a stage
    is taken as stage 1.
    """
    word = text.lower()
    if word in EMPTY - {"none"}:
        return None
    if word in ("none", "no", "ddp", "off", "false"):
        return 0, EVERY
    groups = re.search(r"groups? of (\d+)", word)
    size = float(groups[1]) if groups and int(groups[1]) else NODE if "hsdp" in word else EVERY
    stage = re.search(r"zero[\s_-]*(?:stage)?[\s_-]*(\d+)", word) or re.fullmatch(r"(?:stage\s*)?(\d+)(?:\.0)?", word)
    if stage and int(stage[1]) <= 3:
        return int(stage[1]), size
    if stage is None and ("fsdp" in word or "hsdp" in word):
        return 3, size
    if stage is None and ("zero" in word or "distributed optimizer" in word):
        return 1, size
    raise ValueError("must be none, zero0 to zero3, fsdp or hsdp")


def read_recompute(text: str) -> Recompute:
    """``none``, ``selective (...)`` or ``full``; empty is none."""
    word = text.lower()
    if word in EMPTY or word in ("no", "off", "false", "0"):
        return Recompute.NONE
    if word.startswith("selective"):
        return Recompute.SELECTIVE
    if word.startswith("full") or word in ("true", "yes", "on"):
        return Recompute.FULL
    raise ValueError("must be none, selective (...) or full")


def read_precision(text: str) -> Precision:
    """The type of the linear layers' products."""
    word = text.lower().replace("_", "").replace("-", "")
    if "fp4" in word:
        return Precision.FP4
    if "fp8" in word or "float8" in word:
        return Precision.FP8
    if word in EMPTY or "bf16" in word or "bfloat16" in word:
        return Precision.BF16
    if "fp16" in word or "float16" in word:
        return Precision.FP16
    raise ValueError("must be bf16, fp16, fp8, mxfp8 or nvfp4")


def read_attention(text: str) -> Attention | None:
    """``unfused ...`` writes the scores to memory; anything else is a fused kernel; an empty cell says nothing."""
    word = text.lower()
    if word in EMPTY:
        return None
    return "unfused" if word.startswith(("unfused", "eager", "naive", "math")) else "fused"
