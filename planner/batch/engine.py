"""Running a sweep: chains of tasks go to the workers, answers into the store, until every point has one.

Along a chain, a task starts from the plan of the one before, which is in the store by then: so a sweep that was killed and
is resumed takes the same way as one that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from planner.batch.grid import Point, chains, size
from planner.batch.tasks import FAILED, INVALID, Json, Task, task_of
from planner.batch.workers import QUEUE
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.batch.store import Store
    from planner.batch.workers import Workers
    from planner.schema.sweep import Sweep

#: Seconds between two looks at what the workers do.
LOOK = 0.5


@dataclass
class Progress:
    """How far a sweep is: points with an answer (``known``: from the store), and how many of them are failures."""

    total: int
    done: int = 0
    known: int = 0
    failed: int = 0


@dataclass
class Run:
    """What a sweep came to: each point's key, or why it is none; whether it was interrupted."""

    progress: Progress
    keys: dict[int, tuple[str, str]] = field(default_factory=dict)  # position: key, kind
    invalid: dict[int, str] = field(default_factory=dict)
    interrupted: bool = False


@dataclass
class _Chain:
    """The rest of a chain, and the plan that its next task starts from."""

    points: Iterator[Point]
    start: Mapping[str, int] | None = None


@dataclass
class _Running:
    chain: _Chain
    task: Task
    attempts: int = 1


class Engine:
    """One run of a sweep. ``folder`` is where its problems may lie; ``report`` is told of every answer."""

    def __init__(
        self, sweep: Sweep, store: Store, workers: Callable[[], Workers], *, folder: Path | None = None,
        retry_failed: bool = False, report: Callable[[Progress], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self.sweep, self.store, self.make_workers, self.folder = sweep, store, workers, folder
        self.retry_failed, self.report = retry_failed, report
        self.run_state = Run(Progress(size(sweep)))
        self.running: dict[Future[Json], _Running] = {}

    def run(self) -> Run:
        """Answer every point; what is finished by the time of an interrupt is in the store."""
        waiting = (_Chain(iter(points)) for points in chains(self.sweep))
        workers: Workers | None = None
        finished = False
        try:
            while True:
                while workers is None or len(self.running) < QUEUE * workers.count:
                    chain = next(waiting, None)
                    if chain is None:
                        break
                    running = self._next(chain)
                    if running is not None:
                        workers = workers or self.make_workers()  # not before there is something to do
                        self._submit(workers, running)
                if workers is None or not self.running:
                    break
                done, _ = wait(self.running, timeout=LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(workers, future, self.running.pop(future))
            finished = True
        except KeyboardInterrupt:
            self.run_state.interrupted = True
        finally:
            if workers is not None:
                workers.close(kill=not finished)
        return self.run_state

    def _next(self, chain: _Chain) -> _Running | None:
        """The chain's next task without an answer; None at its end."""
        progress = self.run_state.progress
        for point in chain.points:
            try:
                task = task_of(point, self.sweep.options, self.folder)
            except InputError as error:
                self.run_state.invalid[point.position] = "; ".join(error.problems)
                chain.start = None
                progress.done, progress.failed = progress.done + 1, progress.failed + 1
                self.report(progress)
                continue
            key = task.key
            self.run_state.keys[point.position] = (key, task.kind)
            known = self.store.get(key)
            if known is None or (self.retry_failed and known["answer"]["status"] == FAILED):
                return _Running(chain, task)
            progress.known += 1
            self._count(chain, known)
        return None

    def _submit(self, workers: Workers, running: _Running) -> None:
        self.running[workers.submit(running.task, running.chain.start)] = running

    def _take(self, workers: Workers, future: Future[Json], running: _Running) -> None:
        """Store an answer and go on with its chain; or try again what a worker died or hung on."""
        try:
            result = future.result()
        except Exception as error:
            if running.attempts <= self.sweep.options.retries:
                running.attempts += 1
                self._submit(workers, running)
                return
            reason = f"{type(error).__name__}: {error}".strip().rstrip(":")
            answer = {"status": FAILED, "reason": f"{reason} ({running.attempts} attempts)"}
            result = {"answer": answer, "columns": None}
        self.store.put(running.task.key, running.task.kind, result)
        self._count(running.chain, result)
        following = self._next(running.chain)
        if following is not None:
            self._submit(workers, following)

    def _count(self, chain: _Chain, result: Json) -> None:
        progress = self.run_state.progress
        chain.start = result["columns"]
        progress.done += 1
        progress.failed += result["answer"]["status"] in (FAILED, INVALID)
        self.report(progress)
