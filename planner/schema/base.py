"""Reading TOML files into strict, immutable pydantic objects, with every problem reported at once."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from planner.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

#: No instance file is near this size; a larger one is a mistake and must not be read into memory.
MAX_FILE_BYTES = 4 * 1024 * 1024


class Strict(BaseModel):
    """Immutable, no unknown keys, no NaN or infinity, no silent conversion of types."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


Record = TypeVar("Record", bound=BaseModel)


def read_bytes(path: Path) -> bytes:
    """The content of ``path``. Raises `InputError` when it is missing, a folder, unreadable or too large."""
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder, not a file")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            limit = MAX_FILE_BYTES // 1024**2
            raise InputError(f"{path}: {size / 1e6:,.0f} MB is too large for an instance file (limit {limit} MiB)")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The TOML document at ``path``. Raises `InputError` when it is no text or no TOML."""
    raw = read_bytes(path)
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not a text file (TOML in UTF-8 is expected)") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: is not valid TOML: {error}") from None


def validate(record: type[Record], document: Any, origin: str) -> Record:
    """``document`` as a ``record``. Raises `InputError` with one line for each problem, ``origin`` first."""
    try:
        return record.model_validate(document)
    except ValidationError as error:
        raise InputError([_describe(origin, problem) for problem in error.errors()]) from None


def _describe(origin: str, problem: Any) -> str:
    parts: list[str] = []
    for step in problem["loc"]:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif "[" not in step and "function-" not in step:  # pydantic's names of union branches say nothing
            parts.append(f".{step}" if parts else step)
    key = "".join(parts) or "document"
    kind, given = problem["type"], problem["input"]
    if kind == "missing":
        return f"{origin}: {key}: is missing"
    if kind == "extra_forbidden":
        return f"{origin}: {key}: is not a known key"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{origin}: {key}: {message[0].lower()}{message[1:]}, not {_short(given)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
