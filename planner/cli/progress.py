"""One line of news from a running solver, on stderr and only where somebody sees it."""

from __future__ import annotations

import sys
from math import isfinite
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from planner.outcome import Progress

CLEAR = "\r\x1b[K"


class ProgressLine:
    """A line that rewrites itself on a terminal; silent otherwise. Cleared on leaving the context."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            print(CLEAR, end="", file=sys.stderr, flush=True)

    def report(self, news: Progress) -> None:
        """Show ``news``."""
        if self.live:
            print(f"{CLEAR}{describe(news)}", end="", file=sys.stderr, flush=True)


def describe(news: Progress) -> str:
    """``news`` in less than 80 characters."""
    parts = [f"{news.elapsed:6.1f} s", news.phase[:24]]
    parts.append(f"bound {news.bound:.4g}" if isfinite(news.bound) else "no bound yet")
    if isfinite(news.incumbent):
        parts.append(f"best {news.incumbent:.4g}")
        if isfinite(news.bound) and news.incumbent > 0:
            parts.append(f"gap {max(0.0, 1 - news.bound / news.incumbent):.2%}")
    else:
        parts.append("no plan yet")
    return "  ".join(parts)
