"""Who solves the tasks of a sweep: processes on this machine, or a Dask cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import Future
from math import isfinite
from multiprocessing import get_all_start_methods, get_context
from typing import Any, Protocol

from planner.batch.tasks import Json, Task, run
from planner.errors import InputError

#: A worker that takes this many times the solver's own limit, and so many seconds, hangs.
GRACE, MORE_GRACE = 2.0, 60.0
#: How a worker process begins: from a clean one, never as a copy of this one with its threads.
START = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
#: Workers wait in a queue so long that none is idle.
QUEUE = 2


class Workers(Protocol):
    """Solve tasks at the same time."""

    count: int

    def submit(self, task: Task, start: Mapping[str, int] | None) -> Future[Json]:
        """The answer to come; its exception says that a worker died or hung."""

    def close(self, kill: bool) -> None:
        """End the workers, at once or after what they are at."""


class LocalWorkers:
    """``count`` processes on this machine. One that dies costs its task only; one that hangs is killed."""

    def __init__(self, count: int) -> None:
        from pebble import ProcessPool

        self.count = count
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before the workers load NumPy: each has one core
        self.pool = ProcessPool(max_workers=count, initializer=_start, context=get_context(START))

    def submit(self, task: Task, start: Mapping[str, int] | None) -> Future[Json]:
        """The answer to come."""
        limit = longest(task)
        future: Future[Json] = self.pool.schedule(run, args=(task, start), timeout=limit if isfinite(limit) else None)
        return future

    def close(self, kill: bool) -> None:
        """End the processes."""
        if kill:
            self.pool.stop()
        else:
            self.pool.close()
        self.pool.join()


class DaskWorkers:
    """A Dask cluster: ``tcp://host:port`` of its scheduler, or ``local:N`` for one of N processes on this machine."""

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise InputError("--dask: needs the package 'distributed' (pip install 'planner[dask]')") from None
        self.cluster: Any = None
        if address.startswith("local:"):
            number = address.removeprefix("local:")
            if not number.isdigit() or int(number) < 1:
                raise InputError(f"--dask {address}: must be local:N with N processes, or tcp://host:port")
            self.cluster = LocalCluster(
                n_workers=int(number), threads_per_worker=1, processes=True, dashboard_address=None
            )
            address = self.cluster.scheduler_address
        try:
            self.client = Client(address, timeout="10s")
        except (OSError, ValueError) as error:
            raise InputError(f"--dask {address}: no scheduler answers there ({error})") from None
        self.count = max(1, len(self.client.ncores()))
        self.executor = self.client.get_executor(pure=False)

    def submit(self, task: Task, start: Mapping[str, int] | None) -> Future[Json]:
        """The answer to come."""
        future: Future[Json] = self.executor.submit(run, task, start)
        return future

    def close(self, kill: bool) -> None:
        """Leave the cluster; one that was started here ends."""
        self.executor.shutdown(wait=not kill)
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()


def longest(task: Task) -> float:
    """Seconds after which a task's worker is taken to hang."""
    limit = task.options.get("time_limit")
    return float("inf") if limit is None else GRACE * limit + MORE_GRACE


def _start() -> None:
    """A worker leaves Ctrl-C to the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
