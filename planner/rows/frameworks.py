"""The framework column of a table: which profile of the catalogue describes a run."""

from __future__ import annotations

import re
from functools import lru_cache

from planner import catalog
from planner.schema.framework import Framework

#: The profile of runs whose framework is not known.
UNKNOWN = "generic"


def read_framework(text: str) -> str:
    """The catalogue's name of the profile that ``text`` means: the one whose pattern matches most of it."""
    if text in _patterns():
        return text
    best, longest = UNKNOWN, 0
    for name, patterns in _patterns().items():
        for pattern in patterns:
            found = re.search(pattern, text, re.IGNORECASE)
            if found and len(found[0]) > longest:
                best, longest = name, len(found[0])
    return best


@lru_cache(maxsize=64)
def profile(name: str) -> Framework:
    """The catalogue's profile of that name."""
    return catalog.load_framework(name)


@lru_cache(maxsize=1)
def _patterns() -> dict[str, tuple[str, ...]]:
    return {name: profile(name).names for name in catalog.names("framework")}
