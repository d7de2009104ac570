"""The decision space of a frontier problem: every degree with its part on every network level, batches and schedule."""

from __future__ import annotations

from math import ceil, floor, gcd, log2, prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.algebra.expressions import Array
from planner.algebra.space import Allowed, Axis, Equal, Relation, Space, divisors
from planner.errors import InputError
from planner.frontier.costs import DEGREES, beyond, part
from planner.frontier.setting import ORDINARY, SCHEDULES, ZERO_BUBBLE, Setting
from planner.schema.problem import Range, admitted

if TYPE_CHECKING:
    from planner.schema.frontier import FrontierProblem

#: With any number of accelerators, those are candidates that have no larger prime factor, up to this multiple of the least.
LARGEST_PRIME = 7
#: Spaces that are kept for the next problem of a sweep.
MOST_SPACES = 16
_SPACES: dict[tuple[object, ...], Space] = {}


def least_gpus(setting: Setting) -> float:
    """Accelerators that finish in time only if all of them work at their sustained rate."""
    return setting.model.compute / (setting.limit * setting.accelerator.reachable)


def cluster_sizes(problem: FrontierProblem, setting: Setting, origin: str) -> list[int]:
    """Numbers of accelerators to choose from, ascending, beginning where finishing in time is not out of the question.

    Raises `InputError` for listed numbers that do not fill the inner network levels. There may be none.
    """
    wanted, model = problem.decisions.gpus, setting.model
    unit = prod(level.size for level in setting.levels[:-1])
    least = least_gpus(setting)
    if isinstance(wanted, int | list):
        counts = sorted({wanted} if isinstance(wanted, int) else set(wanted))
        wrong = [count for count in counts if count < 1 or count % unit]
        if wrong:
            raise InputError(f"{origin}: decisions.gpus: {wrong[0]} does not fill the inner network levels of {unit}")
        return counts
    if wanted == "doubling":
        first = max(0, ceil(log2(max(1.0, least / model.experts)) - 1e-9))
        return [
            count for power in range(first, problem.decisions.most_doublings + 1)
            if (count := model.experts << power) % unit == 0
        ]  # fmt: skip
    low, high = least, model.experts * 2.0**problem.decisions.most_doublings
    if isinstance(wanted, Range):
        low, high = max(low, wanted.min or 0), min(high, wanted.max or high)
    return [count * unit for count in _smooth(low / unit, high / unit)]


def build_space(problem: FrontierProblem, setting: Setting, sizes: list[int], origin: str) -> Space:
    """The space with ``sizes`` as the numbers of accelerators; the same one for problems that differ in numbers only.

    Raises `InputError` with every restriction that leaves nothing.
    """
    model = setting.model
    key = (
        problem.decisions.model_dump_json(), model.width, model.ff, model.layers, model.experts, model.batch,
        tuple((level.name, level.size) for level in setting.levels), tuple(sizes),
    )  # fmt: skip
    if key not in _SPACES:
        while len(_SPACES) >= MOST_SPACES:
            del _SPACES[next(iter(_SPACES))]  # the oldest
        _SPACES[key] = _Builder(problem, setting, sizes, origin).build()
    return _SPACES[key]


class _Builder:
    def __init__(self, problem: FrontierProblem, setting: Setting, sizes: list[int], origin: str) -> None:
        self.problem, self.setting, self.sizes, self.origin = problem, setting, sizes, origin
        self.largest = max(sizes)
        self.axes: list[Axis] = []
        self.constants: dict[str, int] = {}
        self.relations: list[Relation] = []
        self.problems: list[str] = []

    def build(self) -> Space:
        model, levels = self.setting.model, self.setting.levels
        per_expert = model.batch // model.experts
        degrees = {
            "tp_model": self._degree("tp_model", model.width, "the width"),
            "tp_ff": self._degree("tp_ff", model.ff, "the feed-forward width"),
            "dp": self._degree("dp", per_expert, "the batch's tokens for each expert"),
            "ep": self._degree("ep", model.experts, "the experts"),
        }
        pipelines = self._pipelines()
        counts = divisors(per_expert)
        microbatches = self._select("microbatches", counts, "it must divide the batch's tokens for each expert")
        if self.problems:
            raise InputError(self.problems)
        degrees["pp"] = sorted({pp for pp, _, _ in pipelines})
        self._add("gpus", {"gpus": self.sizes})
        for degree in ("tp_model", "tp_ff", "ep", "dp"):
            self._add(degree, {degree: degrees[degree]})
        self._add("pipeline", {key: [pipeline[place] for pipeline in pipelines]
                               for place, key in enumerate(("pp", "vp", "schedule"))})  # fmt: skip
        self._add("all_microbatches", {"all_microbatches": counts})
        self._add("microbatches", {"microbatches": microbatches})
        for degree in DEGREES:
            self._parts(degree, degrees[degree])
        for level, link in enumerate(levels[:-1]):
            columns = dict.fromkeys((part(degree, level) for degree in DEGREES), 1)
            self.relations.append(Equal(f"accelerators of {link.name}", columns, link.size))
        self.relations.append(Equal("accelerators", dict.fromkeys(DEGREES, 1) | {"gpus": -1}))
        self.relations.append(Equal("all microbatches", {"dp": 1, "microbatches": 1, "all_microbatches": -1}))
        self.relations.append(Allowed("microbatches fill the zero-bubble schedule", ("pp", "schedule", "microbatches"),
                                      _fills))  # fmt: skip
        if self.problem.decisions.ep == "all":
            experts = model.experts
            self.relations.append(Allowed("all experts that divide the accelerators", ("ep", "gpus"),
                                          lambda ep, gpus: ep == np.gcd(gpus.astype(np.int64), experts)))  # fmt: skip
        if self.problems:
            raise InputError(self.problems)
        return Space(tuple(self.axes), tuple(self.relations), self.constants)

    def _degree(self, key: str, dimension: int, what: str) -> list[int]:
        found = sorted({factor for size in self.sizes for factor in divisors(gcd(dimension, size))})
        return self._select(key, found, f"{key} must divide {what} and the accelerators")

    def _pipelines(self) -> list[tuple[int, int, int]]:
        decisions, layers = self.problem.decisions, self.setting.model.layers
        wanted = decisions.schedule
        kinds = list(SCHEDULES.values()) if wanted is None else [
            SCHEDULES[name] for name in ([wanted] if isinstance(wanted, str) else wanted)
        ]  # fmt: skip
        found = []
        for pp in self._degree("pp", layers, f"the {layers} layers"):
            for vp in divisors(layers // pp) if pp > 1 else [1]:
                found += [(pp, vp, kind) for kind in kinds if kind == ORDINARY or vp == 1]
        kept = [pipeline for pipeline in found if admitted(decisions.vp, pipeline[1])]
        if found and not kept:
            self.problems.append(
                f"{self.origin}: decisions.vp: {decisions.vp} fits no pipeline; pp x vp must divide {layers} layers, and "
                "the zero-bubble schedule has vp = 1"
            )
        return kept

    def _select(self, key: str, candidates: list[int], reason: str) -> list[int]:
        wanted = getattr(self.problem.decisions, key)
        kept = candidates if wanted == "all" else [value for value in candidates if admitted(wanted, value)]
        if not kept:
            shown = ", ".join(str(value) for value in candidates[:12])
            shown += " ..." if len(candidates) > 12 else ""
            self.problems.append(f"{self.origin}: decisions.{key}: is not possible: {reason}; possible: {shown}")
        return kept

    def _add(self, name: str, table: dict[str, list[int]]) -> None:
        if len(next(iter(table.values()))) == 1:
            self.constants.update({column: values[0] for column, values in table.items()})
        else:
            self.axes.append(Axis(name, {column: np.array(values, dtype=np.int64) for column, values in table.items()}))

    def _parts(self, degree: str, totals: list[int]) -> None:
        levels = self.setting.levels
        values = sorted({factor for value in totals for factor in divisors(value)})
        for level, link in enumerate(levels):
            column = part(degree, level)
            self._add(column, {column: [value for value in values if not link.size or link.size % value == 0]})
        powers = {part(degree, level): 1 for level in range(len(levels))}
        self.relations.append(Equal(f"{degree} placed on the levels", powers | {degree: -1}))
        if degree == "pp":
            for level in range(self.setting.top - 1):  # what lies farther out, where that is several levels
                column = beyond(degree, level)
                self._add(column, {column: values})
                outer = {part(degree, other): 1 for other in range(level + 1, len(levels))}
                self.relations.append(Equal(f"{degree} beyond {levels[level].name}", outer | {column: -1}))


def _fills(pp: Array, schedule: Array, microbatches: Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (schedule != ZERO_BUBBLE) | (microbatches >= 2 * pp)
    return found


def _smooth(low: float, high: float) -> list[int]:
    """Numbers from ``low`` to ``high`` without a prime factor above `LARGEST_PRIME`, ascending."""
    found = {1}
    for prime in (2, 3, 5, 7):
        grown = set(found)
        for value in found:
            while (value := value * prime) <= high:
                grown.add(value)
        found = grown
    return sorted(value for value in found if ceil(low) <= value <= floor(high))
