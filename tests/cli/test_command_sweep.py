"""``planner frontier`` and ``planner sweep`` as a user runs them: answers, mistakes, kills and resumption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

SWEEP = """\
schema = 1
name = "small"
problem = "frontier-h100-dense"
set = { layers = 4, width = 512, "batch.factor" = 0.01, months = 1e-3, most_doublings = 5 }

[axes]
network_bandwidth = [1.0, 2.0]
latency = { from = 0.1, to = 1.0, points = 12 }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SWEEP)
    return path


def compared(path: Path) -> pd.DataFrame:
    return pd.read_csv(path).drop(columns="wall_s")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "planner", *map(str, arguments)]


def test_frontier_finds_the_published_cluster(planner, tmp_path):
    ran = planner("frontier", "frontier-h100-dense", "--width", "53248", "--json", "-o", "plan.json")
    assert ran.returncode == 0
    found = json.loads(ran.stdout)
    assert found == json.loads((tmp_path / "plan.json").read_text())
    assert found["status"] == "optimal"
    assert found["plan"]["gpus"] == 8388608
    assert found["mfu"] == pytest.approx(0.5527, abs=1e-4)
    assert found["months"] <= 3
    assert sum(found["time_s"].values()) == pytest.approx(found["run_time_s"], rel=1e-9)
    assert all(len(parts) == 2 for parts in found["plan"]["placement"].values())
    text = planner("frontier", "frontier-h100-dense", "--budget", "1e26")
    assert text.returncode == 0
    assert "the smallest cluster that finishes within 3 months" in " ".join(text.stdout.split())


def test_frontier_says_what_stops_a_run(planner):
    small = ("width=512", "layers=64", "months=0.001", "most_doublings=8", "latency=10000")
    ran = planner("frontier", "frontier-h100-dense", *(word for key in small for word in ("--set", key)), "--json")
    assert ran.returncode == 1
    found = json.loads(ran.stdout)
    assert found["status"] == "infeasible"
    assert {stop["name"] for stop in found["obstacles"]} == {
        "latency",
        "network bandwidth",
        "memory bandwidth",
        "memory",
    }
    assert [stop["gpus"] is not None for stop in found["obstacles"]] == [True, False, False, False]
    assert "without the limits of latency" in found["reason"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("frontier", "frontier-h100-dense", "--budget", "-1"), "--budget -1"),
        (("frontier", "frontier-h100-dense", "--budget", "1e26", "--width", "512"), "only one of them"),
        (("frontier", "gpt3-175b-1k-a100"), "planner solve"),
        (("solve", "frontier-h100-dense"), "planner frontier"),
        (("frontier", "frontier-h100-dense", "--set", "nonsense=1"), "'nonsense' is not a known key"),
        (("frontier", "frontier-h100-dense", "--set", "gpus=100"), "does not fill the inner network levels"),
        (("sweep", "no-such-sweep"), "not in the catalogue"),
        (("sweep", "small.toml", "-o", "table.xls"), "must end in .csv or .parquet"),
        (("sweep", "small.toml", "--jobs", "0"), "--jobs 0"),
        (("sweep", "small.toml", "--dask", "local:x"), "must be local:N"),
        (("sweep", "small.toml", "--store", "no/such/folder"), "there is no folder"),
        (("sweep", "small.toml", "--set", "latency=2"), "is an axis"),
    ],
)
def test_mistakes_are_one_line_and_code_two(planner, small, arguments, said):
    ran = planner(*arguments)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert "Traceback" not in ran.stderr


def test_a_sweep_draws_its_curves_and_finds_its_answers_again(planner, tmp_path):
    path = tmp_path / "curve.toml"
    path.write_text(
        'schema = 1\nname = "curve"\nproblem = "frontier-h100-dense"\n\n[[cases]]\nname = "a"\n\n[[cases]]\nname = "b"\n'
        "set = { latency = 0.1 }\n\n[axes]\nwidth = [49152, 53248]\n"
    )
    ran = planner("sweep", path, "--plots", "out", "-o", "table.csv", "--json")
    assert ran.returncode == 0, ran.stderr
    assert [row["status"] for row in json.loads(ran.stdout)["rows"]] == ["optimal"] * 4
    names = {"utilisation", "parallelism-1", "parallelism-2", "time-1", "time-2"}
    drawn = {path.name for path in (tmp_path / "out").iterdir()}
    assert drawn == {f"{name}.{kind}" for name in names for kind in ("png", "svg")} | {"curves.csv", "landmarks.csv"}
    marks = pd.read_csv(tmp_path / "out" / "landmarks.csv").set_index("curve")
    assert marks.linear_ends_at["a"] == pytest.approx(2.05e28, rel=5e-3)
    assert pd.isna(marks.linear_ends_at["b"])
    again = planner("sweep", path)
    assert "4 of them known before" in again.stdout.replace("\n", " ")


def test_killed_and_resumed_it_ends_with_the_same_table(planner, small, tmp_path):
    assert planner("sweep", small, "--store", "whole.sqlite", "--jobs", "2", "-o", "whole.csv").returncode == 0
    for pause in (1.5, 2.0, 2.5):
        process = subprocess.Popen(
            command("sweep", small, "--store", "killed.sqlite", "--jobs", "2"), cwd=tmp_path,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGKILL)  # the workers too: nothing of it goes on
        process.wait()
    assert planner("sweep", small, "--store", "killed.sqlite", "-o", "killed.csv").returncode == 0
    pd.testing.assert_frame_equal(compared(tmp_path / "whole.csv"), compared(tmp_path / "killed.csv"))


def test_two_sweeps_share_a_store_and_dask_gives_the_same_table(planner, small, tmp_path):
    first, second = (
        subprocess.Popen(
            command("sweep", small, "--store", "s.sqlite", "--jobs", "1", "-o", f"{name}.csv"), cwd=tmp_path,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        for name in ("a", "b")
    )  # fmt: skip
    assert first.wait() == 0, first.stderr.read()
    assert second.wait() == 0, second.stderr.read()
    dask = planner("sweep", small, "--store", "d.sqlite", "--dask", "local:2", "-o", "d.csv")
    assert dask.returncode == 0, dask.stderr
    for name in ("b", "d"):
        pd.testing.assert_frame_equal(compared(tmp_path / "a.csv"), compared(tmp_path / f"{name}.csv"))
