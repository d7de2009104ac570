"""What a worker does: a problem with all that it refers to, solved; for each kind of problem.

A task is plain data, so that it can be hashed, sent and stored. Its key depends on its whole content, on the options of
the solver and on the version of the planner, and on nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import catalog
from planner.batch.grid import Point
from planner.errors import InputError
from planner.schema.base import read_toml, validate
from planner.schema.overrides import set_key
from planner.schema.problem import Problem
from planner.version import __version__

if TYPE_CHECKING:
    from planner.schema.sweep import Options

Json = dict[str, Any]
#: Statuses of rows that are no answers: a problem that makes no sense, and a worker that died or hung.
INVALID, FAILED = "invalid", "failed"


@dataclass(frozen=True)
class Task:
    """One problem to solve: its ``kind``, its resolved ``document`` and the solver's ``options``."""

    kind: str
    document: Json
    options: Json

    @property
    def key(self) -> str:
        """What identifies the task by its content."""
        content = [__version__, self.kind, self.document, self.options]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return blake2b(text.encode(), digest_size=20).hexdigest()


@dataclass(frozen=True)
class Kind:
    """A kind of problem: how its file becomes a document, how that is solved from a plan, and an answer's row."""

    resolve: Callable[[Json, str, Path], Json]
    solve: Callable[[Json, Json, Mapping[str, int] | None], tuple[Json, Mapping[str, int] | None]]
    row: Callable[[Json], Json]


def task_of(point: Point, options: Options, folder: Path | None = None) -> Task:
    """The task of a point; problems are looked up in the catalogue or beside ``folder``.

    Raises `InputError` with every problem found.
    """
    document, path = _document(point.problem, folder)
    document = deepcopy(document)
    kind = document.get("kind", "solve")
    if kind not in KINDS:
        raise InputError(f"{path}: kind: is not one of {', '.join(KINDS)}")
    record = _record(kind)
    for key, value in point.settings:
        set_key(document, key, value, record, f"axis {key}")
    chosen = {"gap": options.gap, "time_limit": options.time_limit}
    return Task(kind, KINDS[kind].resolve(document, str(path), path.parent), chosen)


def run(task: Task, start: Mapping[str, int] | None) -> Json:
    """The answer to a task, and under ``columns`` the plan that the next task may start from."""
    try:
        answer, columns = KINDS[task.kind].solve(task.document, task.options, start)
    except InputError as error:
        answer, columns = {"status": INVALID, "reason": "; ".join(error.problems)}, None
    return {"answer": answer, "columns": columns}


def row_of(task_kind: str, answer: Json) -> Json:
    """The figures of an answer as one flat row."""
    if answer["status"] in (INVALID, FAILED):
        return {"status": answer["status"], "reason": answer["reason"]}
    return KINDS[task_kind].row(answer)


@lru_cache(maxsize=64)
def _document(reference: str, folder: Path | None) -> tuple[Json, Path]:
    path = catalog.locate("problem", reference, folder)
    return read_toml(path), path


def _record(kind: str) -> Any:
    if kind == "solve":
        return Problem
    from planner.schema.frontier import FrontierProblem

    return FrontierProblem


# --- one training run on a given cluster --------------------------------------------------------------------------------


def _resolve_run(document: Json, origin: str, folder: Path) -> Json:
    problem = validate(Problem, document, origin)
    cluster = catalog.load_cluster(problem.cluster, folder)
    hardware = catalog.load_hardware(cluster.accelerator, folder)
    framework = catalog.load_framework(problem.framework, folder)
    complete = framework.applied_to(problem.assumptions, hardware.name)
    problem = problem.model_copy(update={"assumptions": complete})
    records = {
        "problem": problem,
        "model": catalog.load_model(problem.model, folder),
        "cluster": cluster,
        "hardware": hardware,
    }
    return {name: record.model_dump(mode="json", by_alias=True) for name, record in records.items()}


def _solve_run(document: Json, options: Json, start: Mapping[str, int] | None) -> tuple[Json, Mapping[str, int] | None]:
    from planner.instance import revive
    from planner.result import Plan, no_plan
    from planner.solving import optimise

    instance = revive(document, str(document["problem"]["name"]))
    outcome = optimise(instance, gap=options["gap"] or 1e-3, time_limit=options["time_limit"] or inf,
                       start=[start] if start else ())  # fmt: skip
    plan = Plan.of(instance, outcome)
    answer = plan.to_json() if plan else no_plan(instance, outcome)
    return answer, outcome.plans[0] if outcome.plans else None


def _run_row(answer: Json) -> Json:
    plan = answer.get("plan") or {}
    row = {key: answer.get(key) for key in (
        "status", "reason", "stopped", "step_time_s", "bound_step_time_s", "gap", "mfu", "hfu", "tokens_per_s_per_gpu",
        "training_days",
    )}  # fmt: skip
    row["memory_gib"] = answer["memory_bytes"]["total"] / 1024**3 if plan else None
    return row | _scalars(plan) | {"wall_s": answer["solver"].get("wall_s")}


# --- the smallest cluster for a compute budget --------------------------------------------------------------------------


def _resolve_frontier(document: Json, origin: str, folder: Path) -> Json:
    from planner.schema.frontier import FrontierProblem

    problem = validate(FrontierProblem, document, origin)
    device = catalog.load_device(problem.device, folder)
    return {
        "problem": problem.model_dump(mode="json", by_alias=True),
        "device": device.model_dump(mode="json", by_alias=True),
    }


def _solve_frontier(
    document: Json, options: Json, start: Mapping[str, int] | None
) -> tuple[Json, Mapping[str, int] | None]:
    from planner.frontier.budget import solve_frontier
    from planner.frontier.problem import frontier_of
    from planner.frontier.result import FrontierPlan
    from planner.schema.frontier import Device, FrontierProblem

    problem = FrontierProblem.model_validate(document["problem"], strict=False)
    device = Device.model_validate(document["device"], strict=False)
    frontier = frontier_of(problem, device, problem.name)
    outcome = solve_frontier(frontier, gap=options["gap"] or 1e-4, time_limit=options["time_limit"] or inf,
                             start=[start] if start else ())  # fmt: skip
    answer = FrontierPlan.of(frontier, outcome).to_json()
    return answer, outcome.plans[0] if outcome.plans else None


def _frontier_row(answer: Json) -> Json:
    row = {key: answer[key] for key in (
        "status", "reason", "stopped", "compute_flop", "months", "bound_months", "gap", "mfu", "bound_mfu", "linear",
        "memory",
    )}  # fmt: skip
    row |= _scalars(answer["plan"] or {}) | answer["model"]
    seconds = answer["run_time_s"]
    row |= {f"share: {name}": value / seconds for name, value in answer["time_s"].items()}
    row |= {f"months: {name}": value for name, value in answer["traffic_months"].items()}
    row |= {f"limit: {name}": value for name, value in answer["limits_flop"].items()}
    return row | {"wall_s": answer["solver"].get("wall_s")}


def _scalars(values: Json) -> Json:
    return {key: value for key, value in values.items() if not isinstance(value, dict | list)}


KINDS = {
    "solve": Kind(_resolve_run, _solve_run, _run_row),
    "frontier": Kind(_resolve_frontier, _solve_frontier, _frontier_row),
}
