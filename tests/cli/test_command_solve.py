"""``planner solve``: what it prints, writes and returns."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Command

KEYS = {
    "status", "problem", "model", "cluster", "plan", "step_time_s", "bound_step_time_s", "gap", "inputs", "mfu", "hfu",
    "tokens_per_s_per_gpu", "tflops_per_gpu", "training_days", "memory_bytes", "time_s", "binding", "notes",
    "alternatives", "stopped", "seed", "solver", "versions",
}  # fmt: skip


@pytest.mark.parametrize("solver", ["highs", "exhaustive"])
def test_json_is_one_complete_document(planner: Command, tiny: Path, solver: str) -> None:
    ran = planner("solve", tiny, "--json", "--solver", solver, "--seed", "7")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    document = json.loads(ran.stdout)
    assert document.keys() == KEYS
    assert document["status"] == "optimal"
    assert document["gap"] <= 1e-3
    assert document["bound_step_time_s"] <= document["step_time_s"] * (1 + 1e-9)
    assert document["seed"] == 7
    plan = document["plan"]
    assert plan["dp"] * plan["tp"] * plan["cp"] * plan["pp"] == plan["gpus"] == 8
    assert plan["dp"] * plan["micro_batch"] * plan["grad_accum"] == plan["global_batch"] == 64
    assert sum(document["time_s"].values()) == pytest.approx(document["step_time_s"])
    assert max(document["memory_bytes"]["per_stage"]) == document["memory_bytes"]["total"]


def test_both_solvers_find_the_same(planner: Command, tiny: Path) -> None:
    times = [
        json.loads(planner("solve", tiny, "--json", "--solver", solver).stdout)["step_time_s"]
        for solver in ("highs", "exhaustive")
    ]
    assert times[0] == pytest.approx(times[1], rel=1e-3)


def test_tables_read_well_in_a_pipe(planner: Command, tiny: Path) -> None:
    ran = planner("solve", tiny, "--solver", "exhaustive", "--top", "3")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""  # no progress where nobody looks
    assert "\x1b" not in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80
    for word in ("optimal", "tensor parallel (tp)", "Time of a step", "Memory of the fullest stage", "Next best"):
        assert word in ran.stdout


def test_output_file_is_the_json_document(planner: Command, tiny: Path, tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    target.write_text("old")
    ran = planner("solve", tiny, "--solver", "exhaustive", "--json", "-o", target)
    assert ran.returncode == 0, ran.stderr
    assert target.read_text() == ran.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "tiny.toml"]


def test_top_gives_more_plans_best_first(planner: Command, tiny: Path) -> None:
    document = json.loads(planner("solve", tiny, "--solver", "exhaustive", "--json", "--top", "4").stdout)
    times = [document["step_time_s"], *(other["step_time_s"] for other in document["alternatives"])]
    assert len(times) == 4
    assert times == sorted(times)


def test_set_overrides_the_file(planner: Command, tiny: Path) -> None:
    ran = planner("solve", tiny, "--solver", "exhaustive", "--json", "--set", "tp=2", "--set", "pp={min=2, max=4}")
    plan = json.loads(ran.stdout)["plan"]
    assert plan["tp"] == 2
    assert 2 <= plan["pp"] <= 4


@pytest.mark.parametrize("solver", ["highs", "exhaustive"])
def test_too_little_memory_is_infeasible_with_numbers(planner: Command, tiny: Path, solver: str) -> None:
    ran = planner("solve", tiny, "--solver", solver, "--set", "memory_gib=2")
    assert ran.returncode == 1, ran.stderr
    assert "no plan fits: the least any plan needs is" in ran.stdout
    assert "GiB usable" in ran.stdout


def test_infeasible_json_says_why(planner: Command, tiny: Path) -> None:
    ran = planner("solve", tiny, "--solver", "exhaustive", "--set", "memory_gib=2", "--json")
    document = json.loads(ran.stdout)
    assert ran.returncode == 1
    assert (document["status"], document["plan"]) == ("infeasible", None)
    assert document["least_memory_bytes"] > document["capacity_bytes"]
    assert "GiB" in document["reason"]


def test_an_empty_space_is_infeasible_and_names_rules(planner: Command, tiny: Path) -> None:
    """Eight accelerators cannot be four tensor ranks in each of eight data-parallel groups."""
    ran = planner("solve", tiny, "--solver", "exhaustive", "--set", "tp=4", "--set", "dp=8", "--json")
    assert ran.returncode == 1, ran.stderr
    assert "dp as restricted" in json.loads(ran.stdout)["reason"]


def test_an_interrupt_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "planner", "solve", "gpt3-175b-1k-a100", "--solver", "exhaustive"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    time.sleep(2.0)  # well within the enumeration
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in errors


def test_a_time_limit_is_kept_and_told(planner: Command) -> None:
    ran = planner("solve", "gpt3-175b-1k-a100", "--solver", "exhaustive", "--time-limit", "0.5", "--json")
    document = json.loads(ran.stdout)
    assert ran.returncode == 3, ran.stderr
    assert document["status"] in ("feasible", "unknown")
    assert "time limit" in document["stopped"]
