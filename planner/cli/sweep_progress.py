"""How far a sweep is, on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from planner.batch.engine import Progress

#: Seconds between two lines where there is no terminal.
INTERVAL = 30.0


class SweepProgress:
    """A bar with done, total, failures, and the time to go."""

    def __init__(self) -> None:
        self.bar: Any = None
        self.number: Any = None
        self.started = self.last = time.monotonic()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self.bar = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                TextColumn("{task.fields[failures]}"), console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self.bar.start()
            self.number = self.bar.add_task("sweep", total=None, failures="")
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def report(self, news: Progress) -> None:
        """Show ``news``."""
        failures = f"{news.failed} failed" if news.failed else ""
        if self.bar is not None:
            self.bar.update(self.number, total=news.total, completed=news.done, failures=failures)
            return
        now = time.monotonic()
        if now - self.last >= INTERVAL:
            self.last = now
            solved = news.done - news.known
            left = (now - self.started) / max(1, solved) * (news.total - news.done)
            line = f"sweep: {news.done:,} of {news.total:,}, {news.failed:,} failed, about {left:,.0f} s to go"
            print(line, file=sys.stderr, flush=True)
