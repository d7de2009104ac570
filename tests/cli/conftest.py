"""The command as a user runs it: in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Ran = subprocess.CompletedProcess[str]
Command = Callable[..., Ran]

#: A problem small enough to price every plan of it, and to prove within a second.
TINY = """\
schema = 1
name = "tiny"
model = "gpt2"
cluster = "dgx-h100-box"

[training]
gpus = 8
global_batch = 64
sequence_length = 1024

[decisions]
cp = 1
sequence_parallel = true
recompute = "none"
replicas = 1
zero = [0, 1]
"""


@pytest.fixture
def planner(tmp_path: Path) -> Command:
    """Run ``planner`` with arguments in an empty folder."""

    def run(*arguments: str | Path) -> Ran:
        command = [sys.executable, "-m", "planner", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)

    return run


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A problem file that is quickly solved."""
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path
