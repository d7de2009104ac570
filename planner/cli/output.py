"""Writing: to standard output, which may be a closed pipe, and to files, which appear whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType
    from rich.table import Table

CLOSED_PIPE = 141  # as a shell reports a command that died of SIGPIPE


def emit(text: str) -> None:
    """Write ``text`` to standard output at once. Ends the command quietly when nobody reads it any more."""
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter's own flush complains
        raise typer.Exit(CLOSED_PIPE) from None


def note(text: str) -> None:
    """Write a line for the person at the terminal to standard error."""
    print(text, file=sys.stderr)


def as_json(document: Any) -> str:
    """``document`` as strict JSON text (no NaN, no infinity)."""
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def table(*columns: str) -> Table:
    """An empty table: the first column is text, the others are numbers; lines are drawn on a terminal only."""
    from rich import box
    from rich.table import Table

    made = Table(
        header_style="bold",
        box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, show_edge=False,
    )  # fmt: skip
    for place, name in enumerate(columns):
        made.add_column(name, justify="right" if place else "left", overflow="fold")
    return made


def render(*parts: RenderableType) -> str:
    """The parts as text, a blank line between them; colours on a terminal only."""
    from io import StringIO

    from rich.console import Console

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((80, 24)).columns
    console = Console(
        file=StringIO(), width=max(60, width), force_terminal=terminal, highlight=False, markup=False, emoji=False,
        no_color=None if terminal else True,
    )  # fmt: skip
    for place, part in enumerate(parts):
        if place:
            console.print()
        console.print(part)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text if terminal else "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def check_target(path: Path | None) -> None:
    """Raise `InputError` when a file at ``path`` could not be written: better before a long computation than after."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"-o {path}: is a folder, not a file")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InputError(f"-o {path}: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise InputError(f"-o {path}: cannot be written (permission denied)")


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place at once.

    Raises `InputError` when that is impossible. Devices and pipes are written directly.
    """
    target = path.resolve()
    try:
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            write(target)
            return
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            temporary.chmod(target.stat().st_mode if target.exists() else 0o666 & ~_umask())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"-o {path}: cannot be written ({error.strerror or error})") from None


def write_text(path: Path, text: str) -> None:
    """Put ``text`` into the file at ``path``, whole or not at all."""
    write_atomically(path, lambda place: place.write_text(text, encoding="utf-8"))


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
