"""An append-only store of answers, by the content of their tasks: an SQLite file that several sweeps may share.

Every answer is committed as it comes, so that nothing finished is lost to a kill. Of two entries for one key, the later
one counts; entries are never changed.
"""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from planner.errors import InputError

#: Marks the file as one of ours ("PLNR"), and the layout of its table.
APPLICATION, LAYOUT = 0x504C4E52, 1
#: Seconds that a writer waits for another one.
PATIENCE = 60.0

_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, body BLOB NOT NULL,
    created REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS answers_by_key ON answers (key, number);
"""

Json = dict[str, Any]


class Store:
    """The answers in one file. Raises `InputError` where the file is not ours, or cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise InputError(f"{path}: is a folder, not a store of results")
        if not path.resolve().parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.resolve().parent}")
        with self._clear_errors():
            self.database = sqlite3.connect(path, timeout=PATIENCE)
            self._prepare()

    def _prepare(self) -> None:
        (application,) = self.database.execute("PRAGMA application_id").fetchone()
        (layout,) = self.database.execute("PRAGMA user_version").fetchone()
        tables = self.database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and application != APPLICATION:
            raise InputError(f"{self.path}: is a database of another program, not a store of results")
        if layout > LAYOUT:
            raise InputError(f"{self.path}: was written by a newer version of the planner (layout {layout})")
        self.database.execute("PRAGMA journal_mode = WAL")
        if not tables:
            self.database.execute(f"PRAGMA application_id = {APPLICATION}")
            self.database.execute(f"PRAGMA user_version = {LAYOUT}")
        self.database.executescript(_TABLE)

    def get(self, key: str) -> Json | None:
        """The latest answer to the task with this key."""
        with self._clear_errors():
            query = "SELECT body FROM answers WHERE key = ? ORDER BY number DESC LIMIT 1"
            found = self.database.execute(query, (key,)).fetchone()
        return None if found is None else json.loads(zlib.decompress(found[0]))

    def put(self, key: str, kind: str, answer: Json) -> None:
        """Add an answer; it is on disk when this returns."""
        body = zlib.compress(json.dumps(answer, allow_nan=False, separators=(",", ":")).encode())
        with self._clear_errors(), self.database:
            self.database.execute(
                "INSERT INTO answers (key, kind, status, body, created) VALUES (?, ?, ?, ?, ?)",
                (key, kind, answer["answer"]["status"], body, time.time()),
            )

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise InputError(f"{self.path}: the store of results fails: {error}; what it holds stays") from None
