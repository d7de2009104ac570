"""Side by side with Calculon (github.com/calculon-ai/calculon), the public enumerator, on one problem in one run.

Its search without offload (which needs a second memory: that is taken out of the system's description) runs on one
core with its logging off: faster than as shipped, and the fair bar. Each one's best plan is then priced by the other's
model. Calculon leaves out the vocabulary, so its times are of a smaller model, and hides communication by assumption.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.registry import Options
from benchmarks.tables import Table

Json = dict[str, Any]

APPLICATION, SYSTEM, DATATYPE = "models/gpt3-175B.json", "systems/a100_80g.json", "float16"
GIB = 2**30
COUNTING_LIMIT_S = 30.0  # for the size of our space
HUGE_GIB = 100000  # to price a plan that our model says does not fit
RECOMPUTES = {"none": "none", "selective": "attn_only", "full": "full"}


@dataclass(frozen=True)
class Case:
    """The one problem, in our catalogue and in Calculon's words."""

    problem: str
    gpus: int
    batch: int
    search_options: tuple[str, ...] = ()


CASE = Case("gpt3-175b-4k-a100", 4096, 4096)


@dataclass(frozen=True)
class Found:
    """What Calculon's search says. ``step_s`` and ``memory_gib`` are by its own model."""

    wall_s: float
    cpu_s: float
    tried: int
    fitting: int
    execution: Json
    step_s: float
    memory_gib: float


def run(options: Options) -> list[Table]:
    if options.calculon is None:
        raise ValueError("the calculon benchmark needs --calculon PATH, a checkout of calculon-ai/calculon")
    return compare(options.calculon.resolve(), CASE, options.repeat, options.calculon_saved)


def compare(checkout: Path, case: Case, repeat: int, saved: Path | None) -> list[Table]:
    """Search with both, and price each one's best plan by the other's model."""
    with tempfile.TemporaryDirectory() as folder:
        system = _without_offload(checkout, Path(folder))
        old = saved is not None and saved.exists()
        theirs = Found(**json.loads(saved.read_text())) if saved and old else search(checkout, system, case)
        if saved and not old:
            saved.write_text(json.dumps(asdict(theirs), indent=2))
        ours = measure.repeated([*measure.PLANNER, "solve", case.problem, "--json"], repeat)
        plan = ours[0].document.get("plan") or {}
        crossed = price_theirs(checkout, system, case, plan) if plan else {}
    wall = measure.wall(ours)
    speed = Table(
        "Search", ["", "wall s", "CPU s", "plans", "fitting", "plans/CPU s", "proof", "wall ratio", "CPU ratio"]
    )
    speed.add(
        "Calculon, logging off, one process",
        theirs.wall_s,
        theirs.cpu_s,
        theirs.tried,
        theirs.fitting,
        theirs.tried / theirs.cpu_s,
        "its space tried",
        theirs.wall_s / wall,
        theirs.cpu_s / measure.cpu(ours),
    )
    space = space_size(case.problem)
    gap = ours[0].document.get("gap")
    speed.add(
        "planner solve",
        wall,
        measure.cpu(ours),
        f">= {space:,}",
        None,
        None,
        f"{measure.status(ours[0])}, gap {gap:.3%}" if gap is not None else measure.status(ours[0]),
        1.0,
        1.0,
    )
    speed.notes += [
        f"GPT-3 175B, {case.gpus:,} A100 80 GB, {case.batch:,} sequences of 2,048; no offload in either",
        f"planner: median of {repeat} whole commands; its plans are counted for {COUNTING_LIMIT_S:.0f} s",
    ]
    if saved and old:
        speed.notes.append(f"Calculon's own figures are those of an earlier run, kept in {saved.name}")
    return [speed, _prices(case, theirs, ours[0].document, crossed)]


def _prices(case: Case, theirs: Found, ours: Json, crossed: Json) -> Table:
    table = Table(
        "Each one's best plan by both models",
        ["plan", "Calculon, s", "Calculon, GiB", "planner, s", "planner, GiB", "fits by planner"],
    )
    priced = price_ours(case, theirs.execution)
    table.add(
        f"Calculon's: {described(theirs.execution)}",
        theirs.step_s,
        theirs.memory_gib,
        priced.get("step_s"),
        priced.get("memory_gib"),
        priced.get("fits"),
    )
    memory = ours.get("memory_bytes", {}).get("total")
    table.add(
        f"planner's: {described(crossed['execution']) if 'execution' in crossed else 'as Calculon has no word for it'}",
        crossed.get("step_s"),
        crossed.get("memory_gib"),
        ours.get("step_time_s"),
        memory / GIB if memory else None,
        True if memory else None,
    )
    table.notes += [text for text in (priced.get("note"), crossed.get("note")) if text]
    table.notes.append("the planner's plan has what overlap and networks suit it best in Calculon's model")
    return table


def _without_offload(checkout: Path, folder: Path) -> Path:
    system = json.loads((checkout / SYSTEM).read_text())
    system["mem2"]["GiB"] = 0
    path = folder / "system.json"
    path.write_text(json.dumps(system))
    return path


def _child(checkout: Path, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.calculon_child", str(checkout), *map(str, arguments)]


def search(checkout: Path, system: Path, case: Case) -> Found:
    """Calculon's own search without offload; of micro-batches, it tries none beyond the first that does not fit."""
    target = system.with_name("best.json")
    arguments = (checkout / APPLICATION, str(case.gpus), str(case.batch), DATATYPE, system, target, "-c", "1", "-m")
    done = measure.run(_child(checkout, "search", *arguments, *case.search_options))
    if done.code != 0 or not target.exists():
        raise RuntimeError(
            f"Calculon's search failed with exit code {done.code}: {done.complaint or done.stdout[-300:]}"
        )
    best = json.loads(target.read_text())["0"]
    return Found(
        wall_s=done.wall_s,
        cpu_s=done.cpu_s,
        tried=_count(done.stdout, "Total"),
        fitting=_count(done.stdout, "Good"),
        execution=best["execution"],
        step_s=_step(best["stats"]),
        memory_gib=_memory(best["stats"]),
    )


def _count(text: str, kind: str) -> int:
    match = re.search(rf"{kind} executions: (\d+)", text)
    return int(match[1]) if match else 0


def _step(stats: Json) -> float:
    return float(stats["total_time"])


def _memory(stats: Json) -> float:
    return float(stats["proc_mem_tier1_cap_req"]) / GIB


def price_theirs(checkout: Path, system: Path, case: Case, plan: Json) -> Json:
    """Our plan by Calculon's model: its best over the networks and overlaps, which our plan leaves open."""
    if plan["cp"] > 1:
        return {
            "note": f"Calculon has no context parallelism (cp = {plan['cp']}), so it cannot price the planner's plan"
        }
    executions = [
        _execution(case, plan) | {
            "tensor_par_net": tensor,
            "pipeline_par_net": pipeline,
            "data_par_net": data,
            "tensor_par_overlap": overlap,
            "data_par_overlap": hidden,
        }
        for tensor, pipeline, data, overlap, hidden in product(
            range(2) if plan["tp"] > 1 else [0],
            range(2) if plan["pp"] > 1 else [0],
            range(2) if plan["dp"] > 1 else [0],
            ("none", "ring", "pipe") if plan["tp"] > 1 else ("none",),
            (True, False) if plan["dp"] > 1 else (False,),
        )
    ]  # fmt: skip
    answers = _priced(checkout, system, executions)
    priced = [answer for answer in answers if "stats" in answer]
    refusals = sorted({answer["error"] for answer in answers if "error" in answer})
    if not priced:  # what it would cost there if it fitted
        priced = [answer for answer in _priced(checkout, _roomy(system), executions) if "stats" in answer]
        if not priced:
            return {"execution": executions[0], "note": f"Calculon refuses the planner's plan: {'; '.join(refusals)}"}
    else:
        refusals = []
    best = min(priced, key=lambda answer: _step(answer["stats"]))
    notes = []
    if plan["zero"] > 1:
        notes.append("Calculon's optimizer sharding stands for the planner's ZeRO 2 or 3")
    if refusals:
        notes.append(
            "by Calculon, the planner's plan does not fit (it holds the attention scores, which fused attention does "
            "not): its time there is with more memory"
        )
    return {
        "execution": best["execution"],
        "step_s": _step(best["stats"]),
        "memory_gib": _memory(best["stats"]),
        "note": "; ".join(notes),
    }


def _roomy(system: Path) -> Path:
    document = json.loads(system.read_text())
    document["mem1"]["GiB"] = HUGE_GIB
    path = system.with_name("roomy.json")
    path.write_text(json.dumps(document))
    return path


def _priced(checkout: Path, system: Path, executions: list[Json]) -> list[Json]:
    done = subprocess.run(
        _child(checkout, "price", checkout / APPLICATION, system),
        input=json.dumps(executions),
        capture_output=True,
        text=True,
        check=True,
        cwd=measure.ROOT,
    )
    answers: list[Json] = json.loads(done.stdout)
    return answers


def _execution(case: Case, plan: Json) -> Json:
    return {
        "num_procs": plan["gpus"],
        "tensor_par": plan["tp"],
        "pipeline_par": plan["pp"],
        "data_par": plan["dp"],
        "batch_size": case.batch,
        "microbatch_size": plan["micro_batch"],
        "datatype": DATATYPE,
        "fused_activation": True,
        "attention_type": "multihead",
        "activation_recompute": RECOMPUTES[plan["recompute"]],
        "pipeline_interleaving": plan["vp"],
        "optimizer_sharding": plan["zero"] > 0 and plan["dp"] > 1,
        "tensor_par_comm_type": "rs_ag" if plan["sequence_parallel"] else "ar",
        "seq_par_ag_redo": False,
        "weight_offload": False,
        "activations_offload": False,
        "optimizer_offload": False,
        "training": True,
    }


def price_ours(case: Case, execution: Json) -> Json:
    """Its plan by our model, placed as suits it best; memory is not limited, so that a plan too large has a price."""
    from planner.algebra.evaluation import Evaluator
    from planner.errors import InputError
    from planner.instance import load
    from planner.physics.setting import Schedule
    from planner.search.exhaustive import exhaust

    decisions = {
        "tp": execution["tensor_par"],
        "pp": execution["pipeline_par"],
        "dp": execution["data_par"],
        "cp": 1,
        "micro_batch": execution["microbatch_size"],
        "vp": execution["pipeline_interleaving"],
        "recompute": next(ours for ours, theirs in RECOMPUTES.items() if theirs == execution["activation_recompute"]),
        "zero": int(execution["optimizer_sharding"]),
        "sequence_parallel": str(execution["tensor_par_comm_type"] != "ar").lower(),
        "schedule": Schedule.INTERLEAVED.name.lower() if execution["pipeline_interleaving"] > 1 else "1f1b",
    }
    overrides = [f"{key}={value}" for key, value in decisions.items()]
    try:
        real, free = load(case.problem, overrides), load(case.problem, [*overrides, f"memory_gib={HUGE_GIB}"])
    except InputError as error:
        return {"note": f"the planner refuses Calculon's plan: {error}"}
    found = [exhaust(one.space, one.objective, one.peak_memory, one.setting.capacity) for one in (real, free)]
    fits = len(found[0].values) > 0
    answer = found[0] if fits else found[1]
    if not len(answer.values):
        return {"note": "Calculon's plan breaks a rule of the planner's space"}
    memory = Evaluator(free.space.columns(answer.best[:1]))(free.peak_memory)
    return {
        "step_s": float(answer.values[0]),
        "memory_gib": float(memory[0]) / GIB,
        "fits": fits,
        "note": f"Calculon's plan by the planner: the best of {answer.plans} placements and shard groups, with the "
        f"problem's own overlaps; {real.setting.capacity / GIB:.1f} GiB are usable",
    }


def space_size(problem: str) -> int:
    """How many plans keep every rule of our space; counted for half a minute at most."""
    from planner.instance import load
    from planner.search.enumeration import Enumerator

    started, plans = time.monotonic(), 0
    for indices in Enumerator(load(problem).space).combinations():
        plans += len(indices)
        if time.monotonic() - started > COUNTING_LIMIT_S:
            break
    return plans


def described(execution: Json) -> str:
    """A plan of Calculon's in a few words."""
    parts = [
        f"TP{execution['tensor_par']}",
        f"PP{execution['pipeline_par']}",
        f"DP{execution['data_par']}",
        f"x{execution['pipeline_interleaving']}",
        f"micro-batch {execution['microbatch_size']}",
        f"recompute {execution['activation_recompute']}",
        f"ZeRO {int(execution['optimizer_sharding'])}",
        execution["tensor_par_comm_type"],
        f"TP overlap {execution['tensor_par_overlap']}",
        "DP overlap" if execution["data_par_overlap"] else "no DP overlap",
    ]
    return ", ".join(parts)
