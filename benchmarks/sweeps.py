"""The batch engine: speed-up on two processes, memory of a long sweep, random kills, and a Dask worker that dies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.registry import Options
from benchmarks.tables import Table

if TYPE_CHECKING:
    import pandas

#: Problems of a long sweep (small ones, so that the engine has much to do), of a short one, and kills of the long one.
LONG, SHORT, KILLS = 10_000, 120, 10
SWEEP = """\
schema = 1
name = "benchmark"
problem = "frontier-h100-dense"
set = {{ layers = {layers}, width = {width}, "batch.factor" = 0.02, months = {months}, most_doublings = 6 }}

[axes]
network_bandwidth = {{ from = 0.5, to = 8.0, points = {outer} }}
latency = {{ from = 0.01, to = 2.0, points = {inner} }}
"""


def run(options: Options) -> list[Table]:
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        return [_speed_up(here), *_long(here)]


def _speed_up(here: Path) -> Table:
    """Times of the same sweep on one process and on two; start-up is taken off by a sweep of two points."""
    sweep = _written(here / "speed.toml", SHORT, layers=24, width=4096, months=0.02)
    table = Table("Speed-up of a sweep of 120 points", ["processes", "wall s", "points a second"])
    times = {}
    for jobs in (1, 2):
        started = time.perf_counter()
        _sweep(here, sweep, f"speed-{jobs}.sqlite", "--jobs", str(jobs)).wait()
        times[jobs] = time.perf_counter() - started
        table.add(jobs, times[jobs], SHORT / times[jobs])
    table.notes.append(f"speed-up {times[1] / times[2]:.2f} of 2, start of the workers included")
    return table


def _long(here: Path) -> list[Table]:
    """A long sweep, undisturbed, killed at random and resumed, and on Dask with a worker killed: memory and results."""
    import pandas as pd

    memory = Table("A long sweep", ["points", "wall s", "peak memory of the coordinator, MiB"])
    wall = 0.0
    for points in (LONG // 20, LONG):
        sweep = _written(here / f"long-{points}.toml", points, layers=4, width=512, months=1e-3)
        started = time.perf_counter()
        process = _sweep(here, sweep, f"long-{points}.sqlite", "--jobs", "2", "-o", "whole.csv")
        _, _, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        memory.add(points, wall, used.ru_maxrss / 1024)

    draw = random.Random(1)
    kills = 0
    while kills < KILLS:
        process = _sweep(here, sweep, "killed.sqlite", "--jobs", "2")
        try:
            process.wait(timeout=1.6 * wall / KILLS * draw.random())
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
    _sweep(here, sweep, "killed.sqlite", "--jobs", "2", "-o", "killed.csv").wait()

    process = _sweep(here, sweep, "dask.sqlite", "--dask", "local:2", "-o", "dask.csv")
    time.sleep(wall / 2)
    victims = _workers(process.pid)[-1:]
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    process.wait()

    whole = _read(here / "whole.csv", pd)
    table = Table(f"Kills and resumption, {len(whole):,} points", ["what", "kills", "same table as undisturbed"])
    table.add("kill -9 of the sweep, resumed", kills, whole.equals(_read(here / "killed.csv", pd)))
    table.add("Dask, one of two workers killed", len(victims), whole.equals(_read(here / "dask.csv", pd)))
    return [memory, table]


def _written(path: Path, points: int, *, layers: int, width: int, months: float) -> Path:
    outer = 5 if points <= SHORT else 50
    path.write_text(
        SWEEP.format(layers=layers, width=width, months=months, outer=outer, inner=points // outer), encoding="utf-8"
    )
    return path


def _sweep(here: Path, sweep: Path, store: str, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "planner", "sweep", str(sweep), "--store", store, *more]
    return subprocess.Popen(
        command, cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _workers(parent: int) -> list[int]:
    """Processes below ``parent`` that are Dask's workers, oldest first."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,sess=,args="], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in listed.splitlines()]
    return sorted(int(pid) for pid, session, args in lines if int(session) == parent and "spawn_main" in args)


def _read(path: Path, pd: object) -> pandas.DataFrame:
    frame: pandas.DataFrame = pd.read_csv(path)  # type: ignore[attr-defined]
    return frame.drop(columns="wall_s")
