"""The smallest changes that give a problem without a plan one, each proved by a plan, and that nothing smaller does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from planner.algebra.expressions import Expression, power, product
from planner.errors import InputError
from planner.instance import assemble
from planner.outcome import Outcome, Status
from planner.physics.setting import GIB, RECOMPUTES
from planner.proving import prove
from planner.result import degrees
from planner.schema.problem import Range
from planner.solving import optimise, question_of

if TYPE_CHECKING:
    from planner.instance import Instance
    from planner.schema.problem import Problem

#: Any plan will do: a change makes a problem solvable or not.
ANY_PLAN = 0.9
#: A memory is found to this part of itself.
EXACTLY = 1e-3
#: Clusters up to this many times the given one are looked at.
LARGEST_CLUSTER = 64
#: Decisions with an order, from the least change; and what costs memory in a framework, with what would cost less.
ORDERED = ("micro_batch", "tp", "pp", "cp", "ep", "zero", "vp", "dp", "grad_accum", "etp", "edp", "replicas")
LEANER = (
    ("gradient_bytes", 2, "gradients in 16 bits"),
    ("optimizer_bytes", 6.0, "an 8-bit optimizer (6 B a parameter)"),
)


@dataclass(frozen=True)
class Repair:
    """One change, in words, as an override for the command line (empty: another cluster), and a plan that it allows."""

    words: str
    override: str
    plan: Mapping[str, Any]


def repairs(instance: Instance, report: Callable[[str], None] | None = None) -> Iterator[Repair]:
    """Single changes that make ``instance``, which has no plan, solvable; the least of each kind.

    Memory and accelerators are minimised by the solver, so that no smaller amount will do (memory to 0.1 %); of a
    restricted decision the nearest value is proposed, all nearer ones being proved to have no plan. Raises `InputError`
    where the instance has a plan.
    """
    if _any(instance).plans:
        raise InputError("the problem has a plan: there is nothing to repair")
    for kind, search in (("memory", _memory), ("accelerators", _accelerators), ("framework", _framework),
                         ("decisions", _decisions)):  # fmt: skip
        if report:
            report(kind)
        yield from search(instance)


def _any(instance: Instance) -> Outcome:
    return optimise(instance, gap=ANY_PLAN)


def _memory(instance: Instance) -> Iterator[Repair]:
    """The least memory of an accelerator with which a plan fits."""
    question = replace(question_of(instance), objective=instance.peak_memory, floor=instance.peak_memory,
                       capacity=float("inf"), diagnose=False)  # fmt: skip
    outcome = prove(question, gap=EXACTLY)
    if not outcome.plans:
        return
    needed = outcome.values[0] / GIB
    assumptions, limits = instance.problem.assumptions, instance.problem.limits
    usable = limits.memory_fraction * (1 - assumptions.fragmentation)
    device = (needed + instance.hardware.context_gib) / usable
    short = needed - instance.setting.capacity / GIB
    words = f"{device:.1f} GiB of memory an accelerator: the leanest plan is short by {short:.1f} GiB"
    yield Repair(words, f"memory_gib={device + 0.05:.1f}", degrees(instance, outcome.plans[0]))


def _accelerators(instance: Instance) -> Iterator[Repair]:
    """The fewest accelerators on which a plan fits: their number is minimised instead of the time."""
    cluster = instance.cluster
    outermost = cluster.tiers[-1]
    largest = outermost.model_copy(update={"size": outermost.size * LARGEST_CLUSTER})
    larger = cluster.model_copy(update={"tiers": [*cluster.tiers[:-1], largest]})
    training = instance.problem.training.model_copy(update={"gpus": Range(max=larger.accelerators)})
    try:
        wide = _assembled(instance, instance.problem.model_copy(update={"training": training}), larger)
    except InputError:
        return
    count = accelerators(wide)
    outcome = prove(replace(question_of(wide), objective=count, floor=count, diagnose=False), gap=EXACTLY)
    if outcome.plans:
        plan = degrees(wide, outcome.plans[0])
        enough = plan["gpus"] <= cluster.accelerators
        beyond = "" if enough else f" (the cluster has {cluster.accelerators:,})"
        override = f"gpus={plan['gpus']}" if enough else ""
        yield Repair(f"{plan['gpus']:,} accelerators{beyond}: no plan fits on fewer", override, plan)


def accelerators(instance: Instance) -> Expression:
    """How many accelerators a plan uses: tp pp shard replica."""
    count: Expression = product(power_of("tp"), power("pp"))
    return product(product(count, power("shard")), power("replica"))


def power_of(column: str) -> Expression:
    """A column as an expression."""
    from planner.algebra.expressions import term
    from planner.algebra.units import ONE

    return term("accelerators", ONE, 1.0, power(column))


def _framework(instance: Instance) -> Iterator[Repair]:
    """Leaner states of the framework."""
    for name, value, words in LEANER:
        if getattr(instance.problem.assumptions, name) <= value:
            continue
        changed = instance.problem.assumptions.model_copy(update={name: value})
        found = _with_problem(instance, instance.problem.model_copy(update={"assumptions": changed}))
        if found is not None:
            yield Repair(words, f"assumptions.{name}={value:g}", found)


def _decisions(instance: Instance) -> Iterator[Repair]:
    """Each restricted decision, freed: the nearest value with a plan."""
    decisions = instance.problem.decisions
    for name in type(decisions).model_fields:
        wanted = getattr(decisions, name)
        if wanted is None:
            continue
        freed = _decided(instance, name, None)
        if freed is None or (found := _with_problem(instance, freed)) is None:
            continue  # no value of it will do
        for value in _nearest(instance, freed, name, wanted):
            changed = _decided(instance, name, value)
            plan = found if changed is None else _with_problem(instance, changed)
            if plan is not None:
                yield Repair(f"{name} = {value}, not {_shown(wanted)}", f"{name}={_toml(value)}", plan)
                break
        else:
            yield Repair(f"{name} left free, not {_shown(wanted)}", f"{name}={_toml(found.get(name))}", found)


def _nearest(instance: Instance, freed: Problem, name: str, wanted: Any) -> list[Any]:
    """Values of a freed decision that were not admitted, the nearest to what was wanted first."""
    if name == "recompute":
        given = [wanted] if isinstance(wanted, str) else list(wanted)
        return [kind for kind in RECOMPUTES if kind not in given]
    if name not in ORDERED:
        return []
    space = _assembled(instance, freed).space
    if name not in space.owner:
        return []
    values = sorted({int(value) for value in space.owner[name].table[name]})
    if isinstance(wanted, Range):
        low, high = wanted.min or 0, wanted.max or max(values)
    else:
        listed = wanted if isinstance(wanted, list) else [wanted]
        low, high = min(listed), max(listed)
    others = [value for value in values if not low <= value <= high]
    return sorted(others, key=lambda value: max(low / max(value, 1), value / max(high, 1)))


def _decided(instance: Instance, name: str, value: Any) -> Problem | None:
    decisions = instance.problem.decisions.model_copy(update={name: value})
    return instance.problem.model_copy(update={"decisions": decisions})


def _with_problem(instance: Instance, problem: Problem) -> Mapping[str, Any] | None:
    """Any plan of the changed problem; None where there is proved to be none."""
    try:
        changed = _assembled(instance, problem)
    except InputError:
        return None
    outcome = _any(changed)
    if outcome.plans:
        return degrees(changed, outcome.plans[0])
    if outcome.status is not Status.INFEASIBLE:
        raise InputError("a change could not be decided")
    return None


def _assembled(instance: Instance, problem: Problem, cluster: Any = None) -> Instance:
    return assemble(problem, instance.model, instance.hardware, cluster or instance.cluster, instance.origin)


def _shown(wanted: Any) -> str:
    if isinstance(wanted, Range):
        ends = [
            f"at least {wanted.min}" if wanted.min is not None else "",
            f"at most {wanted.max}" if wanted.max else "",
        ]
        return " and ".join(end for end in ends if end)
    return ", ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted)


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
