"""Reading a CSV file of plans: text only, and every way it can be wrong as one line."""

from __future__ import annotations

import csv
import stat
import warnings
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from planner.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

MAX_BYTES = 2 * 1000**3
HEAD = 65536  # bytes that are looked at to tell text from binary

#: A table of plans has some of these columns.
KNOWN = frozenset({
    "model", "n_layers", "d_model", "seq_len", "gpu", "n_gpus", "global_batch", "micro_batch", "tp", "cp", "pp", "dp",
})  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """A file of rows: as text by column, where an empty cell is missing, and as it was read."""

    frame: pd.DataFrame
    content: bytes


def read_rows(path: Path) -> Rows:
    """The rows of the CSV file at ``path``.

    Raises `InputError` when the file is missing, a folder, unreadable, too large, not text, empty or no CSV.
    """
    import pandas as pd

    content = _checked(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(BytesIO(content), dtype=object, encoding="utf-8-sig", index_col=False)
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not a text file (CSV in UTF-8 is expected)") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{path}: is empty (CSV with a header line is expected)") from None
    except (pd.errors.ParserError, pd.errors.ParserWarning, ValueError) as error:
        raise InputError(f"{path}: is not valid CSV: {' '.join(str(error).split())}") from None
    if frame.empty:
        raise InputError(f"{path}: has a header but no rows")
    return Rows(frame, content)


def _checked(path: Path) -> bytes:
    """What the file holds, if it looks like a table of plans."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{path}: is a folder, not a file")
        regular = stat.S_ISREG(status.st_mode)
        if regular and status.st_size > MAX_BYTES:
            raise _too_large(path)
        with path.open("rb") as stream:
            content = stream.read() if regular else stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if len(content) > MAX_BYTES:
        raise _too_large(path)
    head = content[:HEAD]
    if b"\x00" in head:
        raise InputError(f"{path}: is not a text file (CSV in UTF-8 is expected)")
    if not head.strip():
        raise InputError(f"{path}: is empty (CSV with a header line is expected)")
    _check_header(path, head)
    return content


def _check_header(path: Path, head: bytes) -> None:
    """Refuse a table of something else, and columns of one name: all but the first would be ignored."""
    try:
        lines = head.decode("utf-8-sig", errors="replace").splitlines()
        names = [name.strip() for name in next(csv.reader(line for line in lines if line.strip()))]
    except csv.Error as error:
        raise InputError(f"{path}: is not valid CSV: {error}") from None
    doubled = sorted({name for name in names if name and names.count(name) > 1})
    if doubled:
        raise InputError([f"{path}: column {name}: appears more than once" for name in doubled])
    if KNOWN.isdisjoint(names):
        raise InputError(f"{path}: has none of the columns of a plan ({', '.join(sorted(KNOWN))})")


def _too_large(path: Path) -> InputError:
    return InputError(f"{path}: is larger than the limit of {MAX_BYTES / 1e9:.0f} GB; split it")
