"""The command as a whole: help, version, completion, and how light its start is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import Command

HEAVY = {"numpy", "pandas", "pydantic", "pyomo", "highspy", "scipy", "rich"}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], [], ["solve", "--help"]])
def test_the_command_starts_without_heavy_imports(arguments: list[str]) -> None:
    """Help must come at once: no library that takes long to load is loaded for it."""
    code = (
        "import sys\n"
        f"sys.argv = ['planner', *{arguments!r}]\n"
        "from planner.cli.main import main\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ran.stdout.rpartition("LOADED")[2].split()
    assert loaded
    own = {"pydantic"} if arguments[:1] == ["solve"] else set()  # newer typer describes defaults with it
    assert (HEAVY - own).isdisjoint(loaded)


def test_help_names_every_command_and_exit_code(planner: Command) -> None:
    ran = planner("--help")
    assert ran.returncode == 0
    for word in ("solve", "evaluate", "memory-wall", "show", "list", "Exit codes"):
        assert word in ran.stdout


def test_help_of_a_command_names_its_options(planner: Command) -> None:
    ran = planner("solve", "--help")
    for option in ("--set", "--gap", "--time-limit", "--top", "--solver", "--seed", "--json", "--output"):
        assert option in ran.stdout


def test_no_command_shows_the_help_and_fails(planner: Command) -> None:
    ran = planner()
    assert ran.returncode == 2
    assert "Usage" in ran.stdout + ran.stderr


def test_version(planner: Command) -> None:
    ran = planner("--version")
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "planner")


def test_shell_completion_is_there() -> None:
    environment = os.environ | {"_PLANNER_COMPLETE": "complete_bash", "COMP_WORDS": "planner s", "COMP_CWORD": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "planner"], env=environment, capture_output=True, text=True, check=False
    )
    assert "solve" in ran.stdout
    assert "show" in ran.stdout


@pytest.mark.parametrize("command", [["list"], ["show", "deepseek-v3"]])
def test_a_closed_pipe_is_no_error(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "planner", *command], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert ran.stderr == ""
