"""The decision space of a problem: candidate values of every axis, and the rules that a plan must keep.

Totals (``tp``, ``pp`` ...) have an axis where a cost depends on them; every degree also has a part on each network tier
(``tp_0``, ``tp_1`` ...). ``shard`` is the data-parallel group over which ZeRO shards (context ranks included), ``replica``
how many such groups hold the same shards (1 but for HSDP); ``dp = shard * replica / cp``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.algebra.space import Allowed, AtMost, Axis, Equal, Relation, Space, Whole, divisors
from planner.errors import InputError
from planner.physics import rules
from planner.physics.collectives import placed
from planner.physics.setting import PRECISIONS, RECOMPUTES, SCHEDULES, Schedule, Setting
from planner.schema.problem import Range, admitted

if TYPE_CHECKING:
    from planner.schema.problem import Problem

#: A free global batch is searched over k * 2^i with odd k up to this, and the divisors of its limit.
LARGEST_ODD_BATCH_FACTOR = 15


@dataclass(frozen=True)
class Resources:
    """How many accelerators a plan uses: exactly one of ``counts``, or at most ``limit``."""

    counts: tuple[int, ...]
    limit: int

    @property
    def exact(self) -> bool:
        """Whether the counts are listed."""
        return bool(self.counts)


class SpaceBuilder:
    """Collects axes, relations and whatever is wrong with the problem's restrictions."""

    def __init__(self, problem: Problem, setting: Setting, accelerators: int, origin: str) -> None:
        self.problem, self.setting, self.origin = problem, setting, origin
        self.tiers = list(setting.tiers)
        self.problems: list[str] = []
        self.axes: list[Axis] = []
        self.relations: list[Relation] = []
        self.constants: dict[str, int] = {}
        self.resources = self._resources(accelerators)
        self.batches = self._batches()

    def build(self) -> Space:
        """The space. Raises `InputError` with every restriction that leaves nothing."""
        tensor = self._tensor_values()
        contexts = self._context_values()
        pipelines = self._pipeline_values()
        batch_divisors = sorted({d for batch in self.batches for d in divisors(batch)})
        self._fail_if_wrong()
        data = self._data_values(batch_divisors, contexts)
        self._add("tensor", {"tp": [tp for tp, _ in tensor], "sequence_parallel": [sp for _, sp in tensor]})
        self._add("context", {"cp": contexts})
        self._add("pipeline", {
            "pp": [pp for pp, _, _ in pipelines], "vp": [vp for _, vp, _ in pipelines],
            "schedule": [kind for _, _, kind in pipelines],
            "group": [pp if kind == Schedule.INTERLEAVED else 1 for pp, _, kind in pipelines],
        })  # fmt: skip
        self._add("micro_batch", {"micro_batch": self._select("micro_batch", batch_divisors, self._batch_reason())})
        self._add("grad_accum", {"grad_accum": self._select("grad_accum", batch_divisors, self._batch_reason())})
        self._add("global_batch", {"global_batch": list(self.batches)})
        self._add("zero", {"zero": self._select("zero", [0, 1, 2, 3], "the ZeRO stages are 0 to 3")})
        self._add("recompute", {"recompute": [int(c) for c in self._choices("recompute", RECOMPUTES)]})
        self._add("precision", {"precision": [int(p) for p in self.setting.precisions]})
        self._parts("tp", {tp for tp, _ in tensor})
        self._parts("cp", contexts)
        self._parts("pp", {pp for pp, _, _ in pipelines})
        pairs = [(shard, replica) for shard in data for replica in data if shard * replica in set(data)]
        pairs = [pair for pair in pairs if admitted(self.problem.decisions.replicas, pair[1])]
        if not pairs:
            self.problems.append(
                f"{self.origin}: decisions.replicas: {_shown(self.problem.decisions.replicas)} divides no data-parallel group"
            )
        self._fail_if_wrong()
        self._add("data", {"shard": [shard for shard, _ in pairs], "replica": [replica for _, replica in pairs]})
        self._parts("shard", {shard for shard, _ in pairs})
        self._parts("replica", {replica for _, replica in pairs})
        for degree in ("tp", "cp", "pp", "shard", "replica"):
            self._link(degree)
        self._data_rules()
        if self.setting.model.moe is None:
            for key in ("ep", "etp", "edp"):
                wanted = getattr(self.problem.decisions, key)
                if not admitted(wanted, 1):
                    self.problems.append(
                        f"{self.origin}: decisions.{key}: {_shown(wanted)}, but the model has no experts"
                    )
        else:
            self._experts({tp for tp, _ in tensor}, data)
        self._mesh_rules()
        self._total("dp", {"shard": 1, "replica": 1, "cp": -1}, [d for d in data if d <= self.resources.limit])
        self._placement()
        self._fail_if_wrong()
        return Space(tuple(self.axes), tuple(self.relations), self.constants)

    # --- candidate values -----------------------------------------------------------------------------------------

    def _resources(self, accelerators: int) -> Resources:
        wanted = self.problem.training.gpus
        if isinstance(wanted, Range):
            limit = min(wanted.max or accelerators, accelerators)
            if wanted.min is not None:
                self.problems.append(f"{self.origin}: training.gpus: a range takes max only, or list the counts")
            return Resources((), limit)
        counts = [accelerators] if wanted is None else wanted if isinstance(wanted, list) else [wanted]
        for count in counts:
            if count > accelerators:
                self.problems.append(
                    f"{self.origin}: training.gpus: {count} exceeds the {accelerators} accelerators of the cluster"
                )
        return Resources(tuple(sorted(set(counts))), max(counts))

    def _batches(self) -> tuple[int, ...]:
        wanted = self.problem.training.global_batch
        if isinstance(wanted, int):
            return (wanted,)
        if isinstance(wanted, list):
            return tuple(sorted(set(wanted)))
        if wanted.max is None:
            self.problems.append(f"{self.origin}: training.global_batch.max: is missing (a free batch needs a limit)")
            return (1,)
        values = set(divisors(wanted.max))
        for odd in range(1, LARGEST_ODD_BATCH_FACTOR + 1, 2):
            value = odd
            while value <= wanted.max:
                values.add(value)
                value *= 2
        return tuple(sorted(value for value in values if wanted.admits(value)))

    def _tensor_values(self) -> list[tuple[int, int]]:
        model, decisions = self.setting.model, self.problem.decisions
        candidates = [tp for tp in rules.tensor_degrees(model) if tp <= self.resources.limit]
        degrees = self._select("tp", candidates, rules.tensor_reason(model))
        wanted = decisions.sequence_parallel
        switches = [False, True] if wanted is None else wanted if isinstance(wanted, list) else [wanted]
        pairs = []
        for tp in degrees:
            if tp == 1:
                pairs.append((1, 0))
                continue
            allowed = {int(switch) for switch in switches}
            if model.moe is not None:
                allowed &= {1}  # experts take each token from one tensor rank
            if self.setting.sequence % tp:
                allowed &= {0}
            pairs += [(tp, switch) for switch in sorted(allowed)]
        if degrees and not pairs:
            self.problems.append(
                f"{self.origin}: decisions.sequence_parallel: {wanted} leaves no tensor-parallel degree "
                "(it must divide the sequence; mixtures of experts with tp > 1 need it)"
            )
        return pairs

    def _context_values(self) -> list[int]:
        candidates = [cp for cp in rules.context_degrees(self.setting.sequence) if cp <= self.resources.limit]
        return self._select("cp", candidates, f"2 cp must divide sequence_length = {self.setting.sequence}")

    def _pipeline_values(self) -> list[tuple[int, int, int]]:
        decisions, layers = self.problem.decisions, self.setting.model.layers
        counts = self.resources.counts
        candidates = range(1, min(layers, self.resources.limit) + 1)
        fitting = [pp for pp in candidates if not counts or any(count % pp == 0 for count in counts)]
        reason = f"pp must divide the accelerators and be at most {layers} layers"
        degrees = self._select("pp", fitting, reason)
        kinds = self._choices("schedule", SCHEDULES)
        found = rules.pipelines(layers, degrees, [Schedule(kind) for kind in kinds])
        kept = [value for value in found if admitted(decisions.vp, value[1])]
        if degrees and not kept:
            self.problems.append(
                f"{self.origin}: decisions.vp: {_shown(decisions.vp)} fits no pipeline; interleaving needs pp > 1 and "
                f"chunks of equal size, pp x vp dividing {layers}, {layers + 1} or {layers + 2}"
            )
        return kept

    def _data_values(self, batch_divisors: list[int], contexts: list[int]) -> list[int]:
        limit = self.resources.limit
        values = {d * cp for d in batch_divisors for cp in contexts if d * cp <= limit}
        if self.resources.exact:
            values = {value for value in values if any(count % value == 0 for count in self.resources.counts)}
        closed = {factor for value in values for factor in divisors(value)}
        return sorted(closed)

    def _select(self, key: str, candidates: Iterable[int], reason: str) -> list[int]:
        wanted: Any = getattr(self.problem.decisions, key)
        found = list(candidates)
        kept = [value for value in found if admitted(wanted, value)]
        if not kept:
            shown = ", ".join(str(value) for value in found[:12]) + (" ..." if len(found) > 12 else "")
            self.problems.append(
                f"{self.origin}: decisions.{key}: {_shown(wanted)} is not possible: {reason}; possible: {shown or 'none'}"
            )
        return kept

    def _choices(self, key: str, table: dict[str, Any]) -> list[Any]:
        wanted = getattr(self.problem.decisions, key)
        if wanted is None:
            return list(table.values())
        return [table[name] for name in ([wanted] if isinstance(wanted, str) else dict.fromkeys(wanted))]

    def _batch_reason(self) -> str:
        return f"it must divide the global batch of {', '.join(str(batch) for batch in self.batches[-3:])}"

    # --- axes and relations -----------------------------------------------------------------------------------------

    def _add(self, name: str, table: dict[str, list[int]]) -> None:
        size = len(next(iter(table.values())))
        if size == 1:
            self.constants.update({column: int(values[0]) for column, values in table.items()})
        elif size > 1:
            self.axes.append(Axis(name, {column: np.array(values, dtype=np.int64) for column, values in table.items()}))

    def _parts(self, degree: str, totals: Iterable[int]) -> None:
        values = sorted({part for value in totals for part in divisors(value)})
        for tier, link in zip(self.tiers, self.setting.links, strict=True):
            column = placed(degree, tier)
            self._add(column, {column: [value for value in values if value <= link.fanout]})

    def _link(self, degree: str) -> None:
        powers = {placed(degree, tier): 1 for tier in self.tiers} | {degree: -1}
        self.relations.append(Equal(f"{degree} placed on the tiers", powers))

    def _total(self, key: str, powers: dict[str, int], candidates: list[int]) -> None:
        """An axis for a derived degree that the problem restricts."""
        if getattr(self.problem.decisions, key) is None:
            return
        values = self._select(key, candidates, "no such degree divides the batch and the accelerators")
        if values:
            self._add(key, {key: values})
            self.relations.append(Equal(f"{key} as restricted", powers | {key: -1}))

    def _data_rules(self) -> None:
        batch = {"micro_batch": 1, "grad_accum": 1, "cp": -1, "global_batch": -1, "shard": 1, "replica": 1}
        for tier in self.tiers:
            shard, replica, cp = placed("shard", tier), placed("replica", tier), placed("cp", tier)
            self.relations.append(
                Whole(f"context ranks within data ranks on tier {tier}", {shard: 1, replica: 1, cp: -1})
            )
        self.relations.append(Equal("global batch", batch))
        self.relations.append(Whole("context ranks within data ranks", {"shard": 1, "replica": 1, "cp": -1}))
        self.relations.append(Allowed("replicas need ZeRO", ("zero", "replica"), rules.replicas_need_zero))
        self.relations.append(Whole("interleaving needs grad_accum in multiples of pp", {"grad_accum": 1, "group": -1}))
        sequence = self.setting.sequence
        self.relations.append(Allowed(
            "sequence divides among context and tensor ranks", ("tp", "sequence_parallel", "cp"),
            lambda tp, switch, cp: (switch == 0) | (sequence % (cp * tp) == 0),
        ))  # fmt: skip

    def _mesh_rules(self) -> None:
        dense = ("tp", "shard", "replica", "pp")
        fanouts = [link.fanout for link in self.setting.links]
        full = self.resources.counts == (int(np.prod(fanouts)),)
        for tier, fanout in zip(self.tiers, fanouts, strict=True):
            columns = tuple(placed(degree, tier) for degree in dense)
            name = f"accelerators on tier {tier}"
            self.relations.append(Equal(name, dict.fromkeys(columns, 1), fanout) if full
                                  else AtMost(name, columns, fanout))  # fmt: skip
        if not self.resources.exact:
            self.relations.append(AtMost("accelerators", dense, self.resources.limit))
        elif len(self.resources.counts) == 1:
            self.relations.append(Equal("accelerators", dict.fromkeys(dense, 1), self.resources.limit))
            # follows from the others, and lets the totals alone determine the accumulation
            powers = {"global_batch": 1, "cp": 1, "tp": 1, "pp": 1, "micro_batch": -1, "grad_accum": -1}
            self.relations.append(Equal("accumulation by the totals", powers, self.resources.limit))
        else:
            self._add("gpus", {"gpus": list(self.resources.counts)})
            self.relations.append(Equal("accelerators", dict.fromkeys(dense, 1) | {"gpus": -1}))

    def _experts(self, tensor: set[int], data: list[int]) -> None:
        moe = self.setting.model.moe
        assert moe is not None
        limit, folding = self.resources.limit, self.problem.assumptions.folding
        degrees = [ep for ep in divisors(moe.experts) if ep <= limit]
        expert = self._select("ep", degrees, f"ep must divide {moe.experts} experts")
        slices = [etp for etp in divisors(moe.d_expert) if etp <= limit]
        sliced = self._select("etp", slices, f"etp must divide the expert width {moe.d_expert}")
        if not expert or not sliced:
            return
        self._add("ep", {"ep": expert})
        self._add("etp", {"etp": sliced})
        self._parts("ep", expert)
        self._parts("etp", sliced)
        products = {tp * value for tp in tensor for value in data if tp * value <= limit}
        copies = sorted({divisor for value in products for divisor in divisors(value)})
        chosen = self._select("edp", copies, "no such degree divides the tensor and data ranks")
        if not chosen:
            return
        self._add("edp", {"edp": chosen})
        self._parts("edp", chosen)
        for degree in ("ep", "etp", "edp"):
            self._link(degree)
        if folding:
            whole = {"ep": 1, "etp": 1, "edp": 1, "tp": -1, "shard": -1}
            self.relations.append(Equal("expert ranks are the tensor and data ranks", whole))
        else:
            self.relations.append(Equal("etp = tp", {"etp": 1, "tp": -1}))
            self.relations.append(Equal("expert ranks are data ranks", {"ep": 1, "edp": 1, "shard": -1}))
        for tier in self.tiers:
            mesh = {placed(name, tier): 1 for name in ("ep", "etp", "edp")}
            if folding:
                mesh |= {placed("tp", tier): -1, placed("shard", tier): -1}
                self.relations.append(Equal(f"expert ranks are the tensor and data ranks on tier {tier}", mesh))
            else:
                self.relations.append(
                    Equal(f"etp = tp on tier {tier}", {placed("etp", tier): 1, placed("tp", tier): -1})
                )
                mesh = {placed("ep", tier): 1, placed("edp", tier): 1, placed("shard", tier): -1}
                self.relations.append(Equal(f"expert ranks are data ranks on tier {tier}", mesh))

    def _placement(self) -> None:
        for degree, parts in self.problem.placement:
            if parts is None:
                continue
            if len(parts) != len(self.tiers):
                self.problems.append(
                    f"{self.origin}: placement.{degree}: has {len(parts)} parts, the cluster {len(self.tiers)} tiers"
                )
                continue
            if degree in ("ep", "etp") and self.setting.model.moe is None:
                self.problems.append(f"{self.origin}: placement.{degree}: the model has no experts")
                continue
            for tier, part in enumerate(parts):
                if degree == "dp":
                    powers = {placed("shard", tier): 1, placed("replica", tier): 1, placed("cp", tier): -1}
                else:
                    powers = {placed(degree, tier): 1}
                self.relations.append(Equal(f"placement of {degree} on tier {tier}", powers, part))

    def _fail_if_wrong(self) -> None:
        if self.problems:
            raise InputError(self.problems)


def build_space(problem: Problem, setting: Setting, accelerators: int, origin: str) -> Space:
    """The decision space of ``problem``. Raises `InputError` when a restriction leaves an axis without a value."""
    return SpaceBuilder(problem, setting, accelerators, origin).build()


def chosen_precisions(problem: Problem, supported: Callable[[str], bool], sixteen_bit: str, origin: str) -> list[str]:
    """The precisions that are searched: those named, or 16-bit alone. Raises `InputError` for one the chip lacks."""
    wanted = problem.decisions.precision
    if wanted is None:
        return [sixteen_bit]
    named = [wanted] if isinstance(wanted, str) else list(dict.fromkeys(wanted))
    lacking = [name for name in named if not supported(name)]
    if lacking:
        raise InputError(f"{origin}: decisions.precision: the accelerator has no {', '.join(lacking)} matrix products")
    return sorted(named, key=lambda name: PRECISIONS[name])


def _shown(wanted: Any) -> str:
    if isinstance(wanted, Range):
        low = f"min = {wanted.min}" if wanted.min is not None else ""
        high = f"max = {wanted.max}" if wanted.max is not None else ""
        return "{" + ", ".join(part for part in (low, high) if part) + "}"
    return str(wanted)
