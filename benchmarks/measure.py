"""Running a command and what it took: wall time, CPU time and peak memory of that process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLANNER = (sys.executable, "-m", "planner")
MIB = 2**20


@dataclass(frozen=True)
class Run:
    """One finished process. ``cpu_s`` is user and system time, children that it waited for included."""

    code: int
    wall_s: float
    cpu_s: float
    peak_mib: float
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """Its standard output as JSON; empty when it is none (the command failed)."""
        try:
            found = json.loads(self.stdout)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def complaint(self) -> str:
        """The last line that it wrote to stderr."""
        lines = self.stderr.strip().splitlines()
        return lines[-1] if lines else ""


def run(command: Sequence[str | Path], folder: Path | None = None) -> Run:
    """Run ``command`` to its end and measure it."""
    with tempfile.TemporaryDirectory() as kept:
        report = Path(kept) / "report"
        launcher = [sys.executable, "-S", "-E", str(ROOT / "benchmarks" / "launcher.py"), str(report)]
        done = subprocess.run(
            [*launcher, *map(str, command)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder or ROOT,
            check=False,
        )
        wall, cpu, peak = map(float, report.read_text().split())
    return Run(
        code=done.returncode,
        wall_s=wall,
        cpu_s=cpu,
        peak_mib=peak * (1 if sys.platform == "darwin" else 1024) / MIB,
        stdout=done.stdout,
        stderr=done.stderr,
    )


def repeated(command: Sequence[str | Path], times: int) -> list[Run]:
    """Run ``command`` several times, one after the other."""
    return [run(command) for _ in range(max(1, times))]


def wall(runs: Sequence[Run]) -> float:
    """Median wall time, s."""
    return median(one.wall_s for one in runs)


def cpu(runs: Sequence[Run]) -> float:
    """Median CPU time, s."""
    return median(one.cpu_s for one in runs)


def peak(runs: Sequence[Run]) -> float:
    """Highest peak memory, MiB."""
    return max(one.peak_mib for one in runs)


def spread(runs: Sequence[Run]) -> str:
    """The fastest and the slowest wall time."""
    times = [one.wall_s for one in runs]
    return f"{min(times):.2f}..{max(times):.2f}"


def status(one: Run) -> str:
    """How a solve ended: its status, or its complaint."""
    return str(one.document.get("status") or f"exit code {one.code}: {one.complaint}"[:60])
