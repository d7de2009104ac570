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
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:  # a device says that it is empty
            raise InputError(f"{path}: is too large for an instance file (limit {MAX_FILE_BYTES // 1024**2} MiB)")
        return content
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
        raise InputError(_lines(origin, error.errors())) from None


def _lines(origin: str, problems: list[Any]) -> list[str]:
    """A value that may have one of several shapes fails as each: only the nearest shape's problems are shown."""
    values: dict[tuple[int | str, ...], list[Any]] = {}
    for problem in problems:
        values.setdefault(problem["loc"][: _depth(problem)], []).append(problem)
    return [_describe(origin, problem) for group in values.values() for problem in _nearest(group)]


def _depth(problem: Any) -> int:
    """How many steps of a problem's location come before pydantic's name of a branch of a union."""
    steps = problem["loc"]
    return next((place for place in range(len(steps)) if _is_branch(problem, place)), len(steps))


def _is_branch(problem: Any, place: int) -> bool:
    """Whether a step of a problem's location is pydantic's name of a branch; known keys are lower-case words."""
    step = problem["loc"][place]
    if isinstance(step, int) or (problem["type"] == "extra_forbidden" and place == len(problem["loc"]) - 1):
        return False
    return step in ("bool", "int", "str") or not (step.isidentifier() and step.islower())


def _nearest(problems: list[Any]) -> list[Any]:
    """The problems of the shape that got furthest: inside the value rather than with its type, else the first."""

    def rank(problem: Any) -> tuple[int, bool]:
        wrong_type = (
            problem["type"].endswith(("_type", "_error", "int_from_float")) and problem["type"] != "value_error"
        )
        return len(_steps(problem)), not wrong_type

    best = max(problems, key=rank)
    depth = _depth(best) + 1
    return [problem for problem in problems if problem["loc"][:depth] == best["loc"][:depth]]


def _steps(problem: Any) -> list[int | str]:
    return [step for place, step in enumerate(problem["loc"]) if not _is_branch(problem, place)]


def _describe(origin: str, problem: Any) -> str:
    parts: list[str] = []
    for step in _steps(problem):
        parts.append(f"[{step}]" if isinstance(step, int) else f".{step}" if parts else step)
    key, kind = "".join(parts) or "document", problem["type"]
    if kind == "missing":
        return f"{origin}: {key}: is missing"
    if kind == "extra_forbidden":
        return f"{origin}: {key}: is not a known key"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{origin}: {key}: {message[0].lower()}{message[1:]}, not {_short(problem['input'])}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
