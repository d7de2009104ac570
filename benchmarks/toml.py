"""Writing a TOML document: the standard library only reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dumps(document: Mapping[str, Any]) -> str:
    """``document`` as TOML; values are strings, numbers, booleans, lists of them, tables or lists of tables."""
    return "\n".join(_lines(document, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = [f"{key} = {_value(value)}" for key, value in table.items() if not _is_table(value)]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += [f"[{'.'.join((*path, key))}]", *_lines(value, (*path, key))]
        elif _is_table(value):
            for item in value:
                lines += [f"[[{'.'.join((*path, key))}]]", *_lines(item, (*path, key))]
    return lines


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and bool(value) and isinstance(value[0], Mapping))


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
