"""``key=value`` overrides of a document that is about to become a record."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from planner.errors import InputError
from planner.schema.base import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping


def apply_override(document: dict[str, Any], override: str, record: type[Strict]) -> None:
    """Set ``key=value`` in a document of ``record``; a bare key is looked up among the record's sections' keys.

    Raises `InputError` for an unknown key or a malformed override.
    """
    key, value = parse_override(override)
    set_key(document, key, value, record, f"--set {override}")


def parse_override(override: str) -> tuple[str, Any]:
    """Key and value of ``key=value``. Raises `InputError` where it is none."""
    key, separator, text = override.partition("=")
    key = key.strip()
    if not separator or not key:
        raise InputError(f"--set {override}: is not of the form key=value")
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text.strip()  # a bare word is a string


def set_key(document: dict[str, Any], key: str, value: Any, record: type[Strict], origin: str) -> None:
    """Set a bare or dotted key of a document of ``record``. Raises `InputError`, ``origin`` first, for an unknown key."""
    path = key.split(".")
    if len(path) == 1:
        path = [*_section_of(key, record, origin), key]
    target = document
    for name in path[:-1]:
        target = target.setdefault(name, {})
        if not isinstance(target, dict):
            raise InputError(f"{origin}: {name} is not a table")
    target[path[-1]] = value


def sections(record: type[Strict]) -> Mapping[str, type[Strict]]:
    """The tables of a record, in its order: of keys that several have, the first table's is meant."""
    return {
        name: field.annotation
        for name, field in record.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Strict)
    }


def _section_of(key: str, record: type[Strict], origin: str) -> list[str]:
    if key in record.model_fields:
        return []
    for name, section in sections(record).items():
        if key in section.model_fields:
            return [name]
    known = sorted(name for section in sections(record).values() for name in section.model_fields)
    raise InputError(f"{origin}: {key!r} is not a known key; known: {', '.join(known)}")
