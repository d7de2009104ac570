"""``planner validate``, ``planner calibrate`` and ``planner simulate``, as a user runs them."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path

import pytest
from conftest import Command

HEADER = ("framework", "model", "gpu", "n_gpus", "seq_len", "global_batch", "micro_batch", "tp", "pp", "dp", "zero_stage",
          "precision", "step_time_s")  # fmt: skip


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """Eight runs of one machine; times a third above what a first guess would be."""
    rows = []
    for tp, micro, batch, seconds in ((1, 1, 64, 2.9), (1, 2, 64, 2.7), (2, 1, 64, 3.2), (2, 2, 64, 3.0), (4, 2, 64, 3.6),
                                      (4, 4, 64, 3.4), (8, 4, 64, 4.3), (1, 1, 128, 5.7)):  # fmt: skip
        rows.append(["mine", "llama-3-8b", "H100", 8, 4096, batch, micro, tp, 1, 8 // tp, "zero1", "bf16", seconds])
    path = tmp_path / "measured.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([HEADER, *rows])
    return path


def test_a_profile_of_ones_own_runs_prices_them(planner: Command, measured: Path, tmp_path: Path) -> None:
    profile = tmp_path / "mine.toml"
    ran = planner("calibrate", measured, "--hardware", "h100", "--name", "mine", "-o", profile)
    assert ran.returncode == 0, ran.stderr
    assert "held out" in ran.stdout
    assert "do not tell it" in ran.stdout
    document = tomllib.loads(profile.read_text())
    assert document["name"] == "mine"
    assert 0.5 <= document["assumptions"]["matmul_rate"] <= 1.2
    priced = planner("evaluate", measured, "--framework", profile, "--json")
    assert priced.returncode == 0, priced.stderr
    predicted = [row["pred_step_time_s"] for row in json.loads(priced.stdout)["predictions"]]
    with measured.open(newline="") as stream:
        times = [float(row["step_time_s"]) for row in csv.DictReader(stream)]
    errors = sorted(abs(mine / theirs - 1) for mine, theirs in zip(predicted, times, strict=True))
    assert errors[len(errors) // 2] < 0.05


def test_a_calibrated_profile_serves_a_problem(planner: Command, measured: Path, tiny: Path, tmp_path: Path) -> None:
    profile = tmp_path / "mine.toml"
    assert planner("calibrate", measured, "-o", profile).returncode == 0
    own = planner("solve", tiny, "--set", "framework=mine.toml", "--json")
    assert own.returncode == 0, own.stderr
    usual = json.loads(planner("solve", tiny, "--json").stdout)
    assert json.loads(own.stdout)["step_time_s"] != usual["step_time_s"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--hardware", "h1000"], "--hardware 'h1000': is no known accelerator"),
        (["--hardware", "a100"], "no row is of a100"),
        (["--framework", "megatrom-core"], "did you mean megatron-core"),
    ],
)
def test_calibrating_what_cannot_be(planner: Command, measured: Path, arguments: list[str], said: str) -> None:
    ran = planner("calibrate", measured, *arguments)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_too_few_runs_are_told_with_reasons(planner: Command, measured: Path) -> None:
    lines = measured.read_text().splitlines()
    measured.write_text("\n".join([*lines[:4], lines[4].rsplit(",", 1)[0] + ","]) + "\n")
    ran = planner("calibrate", measured)
    assert ran.returncode == 2
    assert "3 runs can be used, at least 5 are needed" in ran.stderr
    assert "line 5: has no step_time_s" in ran.stderr


def test_validation_of_ones_own_runs(planner: Command, measured: Path, tmp_path: Path) -> None:
    target = tmp_path / "scores.csv"
    ran = planner("validate", measured, "-o", target, "--json", "--plots", tmp_path / "plots")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["sources"][0]["runs"] == 8
    assert document["sources"][0]["src_key"] == "measured"
    assert all(Path(path).stat().st_size > 1000 for path in document["plots"])
    assert target.read_text().startswith("src_key,gpu,runs,median")


def test_validation_without_a_file_is_of_the_published_runs(planner: Command) -> None:
    ran = planner("validate")
    assert ran.returncode == 0, ran.stderr
    assert "vtrain_multi, A100" in ran.stdout
    assert "could not be priced" in ran.stdout


def test_a_plan_is_simulated(planner: Command, tmp_path: Path) -> None:
    assert planner("solve", "gpt3-175b-64-a100", "-o", "plan.json").returncode == 0
    ran = planner("simulate", "plan.json", "--trace", "trace.json", "--picture", "timeline.svg", "--json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["step_time_s"] == pytest.approx(document["modelled_step_time_s"], rel=0.01)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {event["tid"] for event in events} == set(range(len(document["stages"])))
    assert {event["cat"] for event in events if event["ph"] == "X"} == {"forward", "backward"}
    last = max(event["ts"] + event["dur"] for event in events if event["ph"] == "X")
    assert last == pytest.approx(document["pipeline_s"] * 1e6)
    assert document["step_time_s"] == pytest.approx(document["pipeline_s"] + document["outside_pipeline_s"])
    assert (tmp_path / "timeline.svg").read_text().startswith("<?xml")
    ran = planner("simulate", "plan.json")
    assert ran.returncode == 0, ran.stderr
    assert "by the cost model's closed form" in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80
    ran = planner("simulate", "plan.json", "--schedule", "dualpipe", "--json")
    assert json.loads(ran.stdout)["modelled_step_time_s"] is None
    assert {stage["most_chunks_in_flight"] for stage in json.loads(ran.stdout)["stages"]} == {9}
    ran = planner("simulate", "plan.json", "--schedule", "best")
    assert (ran.returncode, "must be one of gpipe" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not valid JSON"), ("[]", "holds no plan"), ('{"plan": {}}', "inputs: is missing"),
        ('{"plan": {}, "inputs": {"columns": {}, "problem": {}}}', "inputs.model: is missing"),
    ],
)  # fmt: skip
def test_what_is_no_plan(planner: Command, tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "plan.json").write_text(content)
    ran = planner("simulate", "plan.json")
    assert ran.returncode == 2
    assert said in ran.stderr
