"""Pricing given plans, one a row of a table: what the cost model says of runs that somebody made or means to make."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from planner.algebra.evaluation import Evaluator
from planner.algebra.expressions import Array
from planner.physics import memory, step
from planner.physics.placement import place
from planner.physics.setting import Link, Precision, Schedule, Setting, usable_memory
from planner.rows.frameworks import profile
from planner.rows.plans import NODE, Plans, read_plans
from planner.rows.shapes import read_models
from planner.rows.systems import Systems, read_systems
from planner.rows.table import Codes, Mask, Table
from planner.schema.framework import Assumptions
from planner.schema.problem import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.schema.framework import Framework
    from planner.schema.model import Model

#: The columns that `evaluate` adds, all NaN (and ``pred_fits`` NA) where ``pred_error`` says why.
PREDICTIONS = (
    "pred_step_time_s", "pred_tokens_per_s_per_gpu", "pred_tflops_per_gpu", "pred_mfu", "pred_peak_mem_gb",
)  # fmt: skip

#: Most chunks of layers that are priced; frameworks cut far fewer (stages without a layer are fine: some were run).
MOST_CHUNKS = 65535


def evaluate(frame: pd.DataFrame, frameworks: Mapping[str, Framework] | None = None) -> pd.DataFrame:
    """Price the plan in each row; returns a new frame of the same rows and index with the predictions beside the input.

    Columns are read as ``instances/published/README.md`` describes them; what is not there or empty is inferred or
    taken as usual (`planner.rows`). Added are ``pred_step_time_s`` (s), ``pred_tokens_per_s_per_gpu``,
    ``pred_tflops_per_gpu`` (model FLOP, without recomputation, 1e12), ``pred_mfu`` (of the dense peak of the row's
    precision), ``pred_peak_mem_gb`` (1e9 B of tensors on the fullest accelerator, without driver context),
    ``pred_fits`` (whether the accelerator's memory holds them) and ``pred_error``.

    A row that cannot be evaluated keeps its place, has no predictions, and ``pred_error`` names column, value and what
    would be right; the other rows are unaffected. A plan is never refused for a rule of a framework: degrees need not
    divide layers, heads or nodes, and a global batch that is no multiple of dp x micro_batch takes the next whole
    number of micro-batches. Ranks are placed as Megatron-LM does (`planner.physics.placement`). What the framework does
    is taken from its profile in the catalogue, or from ``frameworks``, which maps a profile's name to another one. Raises
    `InputError` when a column appears twice.
    """
    table = Table(frame)
    plans = read_plans(table)
    models = read_models(table)
    systems = read_systems(table)
    _check(table, plans, models)
    values = {name: np.full(table.size, np.nan) for name in PREDICTIONS}
    fits = np.zeros(table.size, dtype=bool)
    sound = table.sound
    if sound.any():
        columns = _columns(plans, systems, sound)
        for members, setting in _groups(plans, models, systems, sound, frameworks or {}):
            rows = np.flatnonzero(sound)[members]
            batch, gpus, sequence = plans.global_batch[rows], plans.gpus[rows], setting.sequence
            evaluator = Evaluator({name: column[members] for name, column in columns.items()})
            seconds = evaluator(step.step_time(setting))
            peak = evaluator(memory.peak(setting))
            rate = step.model_flop(setting) * batch / (seconds * gpus)
            values["pred_step_time_s"][rows] = seconds
            values["pred_tokens_per_s_per_gpu"][rows] = batch * sequence / (seconds * gpus)
            values["pred_tflops_per_gpu"][rows] = rate / 1e12
            values["pred_mfu"][rows] = rate / setting.peak(setting.precisions[0])
            values["pred_peak_mem_gb"][rows] = peak / 1e9
            fits[rows] = peak <= setting.capacity
    result = frame.copy()
    for name, value in values.items():
        result[name] = value
    result["pred_fits"] = pd.arrays.BooleanArray(fits, ~sound)
    result["pred_error"] = np.array(table.errors, dtype=object)
    return result


def _check(table: Table, plans: Plans, models: tuple[Codes, list[Model | None]]) -> None:
    """Reject what has no meaning: experts without ranks for them."""
    codes, found = models
    sound = table.sound
    experts = np.array([model.moe.experts if model and model.moe else 0 for model in found] or [0], dtype=float)[codes]
    table.reject(
        sound & (plans.pp * plans.vp > MOST_CHUNKS),
        lambda row: f"pp x vp = {plans.pp[row]:g} x {plans.vp[row]:g}: must be at most {MOST_CHUNKS}",
    )
    ranks = plans.tp * plans.cp * plans.dp
    table.reject(
        sound & (experts > 0) & (plans.ep > experts),
        lambda row: f"ep = {plans.ep[row]:g}: must be at most n_experts = {experts[row]:g}",
    )
    table.reject(
        sound & (experts > 0) & (plans.ep * plans.etp > ranks),
        lambda row: f"ep x etp = {plans.ep[row]:g} x {plans.etp[row]:g}: must be at most tp x cp x dp = {ranks[row]:g}",
    )
    plans.ep[experts == 0] = 1.0
    plans.etp[experts == 0] = 1.0


def _columns(plans: Plans, systems: Systems, sound: Mask) -> dict[str, Array]:
    """Every column that the cost expressions read, for the sound rows."""
    tp, data = plans.tp[sound], (plans.dp * plans.cp)[sound]
    group, domain = plans.group[sound], systems.domain[sound]
    ep, etp = plans.ep[sound], plans.etp[sound]
    group = np.where(group == NODE, np.floor(domain / tp), group)
    shard = np.minimum(data, np.maximum(group, np.maximum(1.0, ep * etp / tp)))  # experts' ranks are within one group
    totals = {"tp": tp, "cp": plans.cp[sound], "pp": plans.pp[sound], "ep": ep, "etp": etp}
    totals |= {"shard": shard, "replica": data / shard}
    columns = place(totals, (domain, np.inf))
    interleaved = plans.vp[sound] > 1
    columns |= totals | {
        "vp": plans.vp[sound],
        "schedule": np.where(interleaved, float(Schedule.INTERLEAVED), float(Schedule.ONE_F_ONE_B)),
        "sequence_parallel": plans.sequence_parallel[sound],
        "micro_batch": plans.micro_batch[sound],
        "grad_accum": plans.grad_accum[sound],
        "global_batch": plans.global_batch[sound],
        "zero": plans.zero[sound],
        "recompute": plans.recompute[sound],
        "precision": plans.precision[sound],
    }
    return columns


def _groups(
    plans: Plans,
    models: tuple[Codes, list[Model | None]],
    systems: Systems,
    sound: Mask,
    frameworks: Mapping[str, Framework],
) -> list[tuple[Codes, Setting]]:
    """The sound rows (positions among them) that share everything but the decisions, each with its setting."""
    profiles = [frameworks.get(name) or profile(name) for name in plans.framework[1]]
    keys = pd.DataFrame({
        "model": models[0],
        "hardware": systems.hardware[0],
        "attention": plans.attention[0],
        "framework": plans.framework[0],
        "sequence": plans.sequence,
        "precision": plans.precision,
        "inner_bandwidth": systems.inner_bandwidth,
        "inner_latency": systems.inner_latency,
        "outer_bandwidth": systems.outer_bandwidth,
        "outer_latency": systems.outer_latency,
    })[sound]  # fmt: skip
    codes = keys.groupby(list(keys), sort=False).ngroup().to_numpy().astype(np.intp)
    order = np.argsort(codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    shared = keys.iloc[[members[0] for members in groups]].to_dict(orient="records")
    found = []
    for members, key in zip(groups, shared, strict=True):
        model, hardware = models[1][int(key["model"])], systems.hardware[1][int(key["hardware"])]
        assert model is not None
        assert hardware is not None
        attention = plans.attention[1][int(key["attention"])]
        own = Assumptions() if attention is None else Assumptions(attention=attention)
        assumed = profiles[int(key["framework"])].applied_to(own, hardware.name)
        links = (
            Link("node", 1, float(key["inner_bandwidth"]), float(key["inner_latency"])),
            Link("network", 1, float(key["outer_bandwidth"]), float(key["outer_latency"])),
        )
        precision = Precision(int(key["precision"]))
        capacity = usable_memory(hardware, Limits(), assumed)
        found.append((members, Setting(model, hardware, links, int(key["sequence"]), assumed, (precision,), capacity)))
    return found
