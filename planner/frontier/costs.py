"""What training costs in the theory of arXiv 2411.01137: seconds for the whole run, and memory; written in the algebra.

Columns: the degrees ``tp_model``, ``tp_ff``, ``dp``, ``pp``, ``ep`` with a part on every network level (``tp_model_0`` ...),
``gpus`` (their product), ``vp`` (chunks of a stage), ``microbatches`` of a data-parallel rank and ``all_microbatches`` of
all of them, and ``schedule``. All accelerators share the traffic evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, prod

import numpy as np

from planner.algebra.expressions import Array, Expression, Factor, choice, is_zero, largest, power, product, term, total
from planner.algebra.units import ONE, SECOND
from planner.frontier.matmul import layer_time
from planner.frontier.setting import ORDINARY, ZERO_BUBBLE, Setting

SOURCE = "Erdil and Schneider-Joseph 2024 (arXiv 2411.01137) and their public program"
DEGREES = ("tp_model", "tp_ff", "dp", "pp", "ep")


def part(degree: str, level: int) -> str:
    """The column that holds the part of ``degree`` on a network level."""
    return f"{degree}_{level}"


def run_time(setting: Setting) -> Expression:
    """Seconds of the run: batches times (pipelined layers, latency of a round trip, exposed gradient reduction).

    The layers stretch by 1 / (1 - bubble); the latency of tensor, pipeline and expert communication comes on top unless
    the schedule is zero-bubble; then the data-parallel reduction.
    """
    batches = setting.batches
    ordinary = choice("schedule", {ORDINARY: 1.0, ZERO_BUBBLE: 0.0}, "[ordinary schedule]")
    terms: list[Expression] = [product(layers_time(setting), term("", ONE, batches, pipeline_stretch()))]
    waiting = latency(setting)
    if waiting is not None:
        terms.append(product(waiting, term("", ONE, batches, ordinary)))
    reduction = total_of("data parallel", [data_traffic(setting), *data_latency(setting)])
    if reduction is None:
        return total("run", terms)
    reduction = product(reduction, term("", ONE, batches))
    if setting.assumptions.overlap_data:
        return largest("run", [total("run", terms), reduction])
    return total("run", [*terms, reduction])


def layers_time(setting: Setting) -> Expression:
    """Seconds of a batch's layers on one accelerator: the larger of matrix products and of its traffic."""
    assumptions, waiting = setting.assumptions, latency(setting)
    hidden = [matrix_products(setting)]
    if assumptions.zero_bubble_latency and waiting is not None:
        zero_bubble = choice("schedule", {ORDINARY: 0.0, ZERO_BUBBLE: 1.0}, "[zero-bubble schedule]")
        hidden.append(product(waiting, term("", ONE, 1.0, zero_bubble)))
    network = total_of("network", [all_tensor_traffic(setting), all_point_to_point(setting)])
    if network is None:
        return largest("", hidden)
    return largest("", [*hidden, network]) if assumptions.overlap_tensor else total("", [largest("", hidden), network])


def matrix_products(setting: Setting) -> Expression:
    """Seconds of a batch's matrix products on one accelerator, kernel latencies included.

    L/pp layers x E/ep experts x m microbatches x the six products on shards d/tp_model x f/tp_ff of
    B/(dp m E) tokens; with pp ep = gpus / (tp_model tp_ff dp) that is L E / gpus x (tp_model tp_ff M six), M = dp m.
    """
    model = setting.model

    def six(tp_model: Array, tp_ff: Array, count: Array) -> Array:
        tokens = model.batch / (count * model.experts)
        return (
            tp_model * tp_ff * count * layer_time(setting.accelerator, model.ff / tp_ff, model.width / tp_model, tokens)
        )

    table = Factor("six products", ("tp_model", "tp_ff", "all_microbatches"), six)
    work = model.layers * model.experts
    return term("matrix products", SECOND, work, table, power("gpus", -1), source=SOURCE)


def all_tensor_traffic(setting: Setting) -> Expression | None:
    """Seconds of a batch's tensor-parallel traffic; levels overlap. None if there is none."""
    return _slowest("tensor parallel", [tensor_traffic(setting, level) for level in range(len(setting.levels))])


def all_point_to_point(setting: Setting) -> Expression | None:
    """Seconds of a batch's pipeline and expert traffic; levels overlap. None if there is none."""
    return _slowest("pipeline and experts", [point_to_point(setting, level) for level in range(len(setting.levels))])


def latency(setting: Setting) -> Expression | None:
    """Seconds that a batch waits for messages between tensor, pipeline and expert ranks. None if there is no latency."""
    return total_of("latency", [*tensor_latency(setting), *point_to_point_latency(setting)])


def tensor_traffic(setting: Setting, level: int) -> list[Expression]:
    """All-reduces over both matrices' outputs on one level: 2 (p - 1) q 2L B (the outer levels' parts) w / (gpus bandwidth).

    p is the degree's part here; q the feed-forward width for the degree over the model's width, and the other way round.
    """
    model = setting.model
    rate = _seconds_a_word(setting, level)
    found: list[Expression] = []
    for degree, words in (("tp_model", model.ff), ("tp_ff", model.width)):
        volume = 2.0 * words * 2.0 * model.layers * model.batch * rate
        found.append(_all_reduce("tensor parallel", setting, degree, level, volume))
    return found


def data_traffic(setting: Setting) -> Expression | None:
    """All-reduce of all parameters' gradients, 2 (p - 1) P (the outer levels' parts) w / (gpus bandwidth); levels overlap."""
    words = 2.0 * setting.model.parameters
    return _slowest("data parallel", [
        [_all_reduce("data parallel", setting, "dp", level, words * _seconds_a_word(setting, level))]
        for level in range(len(setting.levels))
    ])  # fmt: skip


def _all_reduce(name: str, setting: Setting, degree: str, level: int, seconds: float) -> Expression:
    column = part(degree, level)
    others = Factor(f"{column}-1", (column,), lambda value: value - 1.0)
    outer = [power(part(degree, other)) for other in range(level + 1, len(setting.levels))]
    return term(name, SECOND, seconds, others, *outer, power("gpus", -1), source=SOURCE)


def tensor_latency(setting: Setting) -> list[Expression]:
    """Two latencies of an all-reduce for each level in it, 2L sequential ones for each degree."""
    repeats = 2.0 * 2.0 * setting.model.layers
    return [
        term("tensor latency", SECOND, repeats * link.latency, _crosses(part(degree, level)), source=SOURCE)
        for degree in ("tp_model", "tp_ff")
        for level, link in enumerate(setting.levels)
    ]


def data_latency(setting: Setting) -> list[Expression]:
    """Two latencies of one all-reduce for each level in it."""
    return [
        term("data latency", SECOND, 2.0 * link.latency, _crosses(part("dp", level)), source=SOURCE)
        for level, link in enumerate(setting.levels)
    ]


def point_to_point(setting: Setting, level: int) -> list[Expression]:
    """Activations on their way to the next layer's stage and expert, forward and backward, that cross one level at most.

    Of the L - 1 interfaces, n_a have their next stage across level a (-1: on the same accelerator); of the tokens, a
    share s_e have their next expert across level e. The pair crosses max(a, e): d 2 n_a s_e B w / (gpus bandwidth).
    """
    model = setting.model
    seconds = 2.0 * model.width * model.batch * _seconds_a_word(setting, level)
    found: list[Expression] = []
    for stages in range(-1, level + 1):
        for experts in range(-1, level + 1):
            if max(stages, experts) == level:
                factors = (*interfaces(setting, stages), *expert_share(setting, experts), power("gpus", -1))
                found.append(term("pipeline and experts", SECOND, seconds, *factors, source=SOURCE))
    return found


def point_to_point_latency(setting: Setting) -> list[Expression]:
    """Two messages for each interface, each as slow as the outermost level on its way; some token always goes farthest."""
    found: list[Expression] = []
    for stages in range(-1, len(setting.levels)):
        for experts in range(-1, len(setting.levels)):
            level = max(stages, experts)
            if level >= 0:
                seconds = 2.0 * setting.levels[level].latency
                factors = (*interfaces(setting, stages), *_farthest(setting, experts))
                found.append(term("pipeline and expert latency", SECOND, seconds, *factors, source=SOURCE))
    return found


def interfaces(setting: Setting, level: int) -> tuple[Factor, ...]:
    """How many of the L - 1 interfaces have their next stage across ``level`` (-1: on the same accelerator).

    With Q stages from a level outwards, v Q - 1 interfaces cross it or a level farther out (none where Q = 1).
    """
    layers = setting.model.layers
    if level < 0:
        return (Factor("L-vp pp", ("vp", "pp"), lambda vp, pp: layers - vp * pp),)
    here = _crosses(part("pp", level))
    if level == setting.top:
        column = part("pp", level)
        return here, Factor(
            f"vp {column}-1", ("vp", column), lambda vp, parts: np.maximum(vp * parts - 1.0, 1.0)
        )  # the floor is only where there is no crossing

    inside = part("pp", level)
    outside = part("pp", setting.top) if level == setting.top - 1 else beyond("pp", level)

    def crossing(vp: Array, parts: Array, others: Array) -> Array:
        found = np.where(others > 1, vp * others * (parts - 1.0), vp * parts - 1.0)
        return np.maximum(found, 1.0)

    return here, Factor(f"interfaces across {inside}", ("vp", inside, outside), crossing)


def beyond(degree: str, level: int) -> str:
    """The column of a degree's part on all levels outside ``level``; only there if these are several."""
    return f"{degree}_beyond_{level}"


def expert_share(setting: Setting, level: int) -> tuple[Factor, ...]:
    """The share of tokens whose next expert is across ``level``, with uniformly random routing.

    (p - 1) / (p x the outer levels' parts): all experts outside a place less all those inside it.
    """
    if level < 0:
        return tuple(power(part("ep", other), -1) for other in range(len(setting.levels)))
    column = part("ep", level)
    share = Factor(f"({column}-1)/{column}", (column,), lambda value: (value - 1.0) / value)
    return share, *(power(part("ep", other), -1) for other in range(level + 1, len(setting.levels)))


def _farthest(setting: Setting, level: int) -> tuple[Factor, ...]:
    """1 where ``level`` is the outermost that expert parallelism crosses (-1: none), else 0."""
    alone = tuple(_inside(part("ep", other)) for other in range(level + 1, len(setting.levels)))
    return alone if level < 0 else (_crosses(part("ep", level)), *alone)


def pipeline_stretch() -> Factor:
    """1 / (1 - bubble) = (z + pp - 1 + v m) / (v m), z = (v - 1) max(0, pp - m); 1 under the zero-bubble schedule."""

    def stretch(pp: Array, vp: Array, schedule: Array, microbatches: Array) -> Array:
        waiting = (vp - 1.0) * np.maximum(0.0, pp - microbatches) + pp - 1.0
        return np.where(schedule == ZERO_BUBBLE, 1.0, 1.0 + waiting / (vp * microbatches))

    return Factor("1/(1-bubble)", ("pp", "vp", "schedule", "microbatches"), stretch)


def memory_use(setting: Setting) -> Expression:
    """Bytes that the run needs over those that all accelerators have: w P dp of weights, w P x 4 of optimizer state."""
    share = setting.word * setting.model.parameters / setting.accelerator.memory
    states = setting.assumptions.optimizer_words
    copies = Factor(f"dp+{states:g}", ("dp",), lambda dp: dp + states)
    return term("memory", ONE, share, copies, power("gpus", -1), source=SOURCE)


def utilisation_of(setting: Setting, seconds: float, gpus: float) -> float:
    """The run's FLOP over what ``gpus`` accelerators could do in ``seconds`` at their peak."""
    return setting.model.compute / (setting.accelerator.peak * gpus * seconds)


def _crosses(column: str) -> Factor:
    return Factor(f"[{column}>1]", (column,), lambda value: (value > 1) * 1.0)


def _inside(column: str) -> Factor:
    return Factor(f"[{column}=1]", (column,), lambda value: (value == 1) * 1.0)


def _seconds_a_word(setting: Setting, level: int) -> float:
    rate = setting.levels[level].bandwidth
    return setting.word / rate if isfinite(rate) else 0.0


def _slowest(name: str, levels: list[list[Expression]]) -> Expression | None:
    """The largest of the levels' sums; None if all are zero."""
    sums = [total_of(name, terms) for terms in levels]
    kept = [item for item in sums if item is not None]
    return largest(name, kept) if kept else None


def total_of(name: str, terms: Sequence[Expression | None]) -> Expression | None:
    """The named sum of ``terms`` without those that are none or zero; None if nothing is left."""
    kept = [item for item in terms if item is not None and not is_zero(item)]
    return total(name, kept) if kept else None


def columns_of(parts: Mapping[str, Sequence[int]], microbatches: int, vp: int, schedule: int) -> dict[str, int]:
    """The columns of a plan that is given by each degree's parts on the network levels, innermost first."""
    columns = {"microbatches": microbatches, "vp": vp, "schedule": schedule}
    for degree in DEGREES:
        columns[degree] = prod(parts[degree])
        columns |= {part(degree, level): value for level, value in enumerate(parts[degree])}
    for level in range(len(parts["pp"]) - 2):
        columns[beyond("pp", level)] = prod(parts["pp"][level + 1 :])
    columns["gpus"] = prod(columns[degree] for degree in DEGREES)
    columns["all_microbatches"] = microbatches * columns["dp"]
    return columns
