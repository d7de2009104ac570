"""The framework column of a table: which profile of the catalogue describes a run."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from planner import catalog
from planner.schema.framework import Framework

if TYPE_CHECKING:
    import pandas as pd

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


def frameworks_of(frame: pd.DataFrame) -> list[str]:
    """The profile of every row of ``frame``, by its ``framework`` and, since frameworks change, its ``year`` if given."""
    if "framework" not in frame.columns:
        return [UNKNOWN] * len(frame)
    texts = frame["framework"].fillna("").astype(str).str.strip()
    if "year" in frame.columns:
        years = frame["year"].fillna("").astype(str).str.removesuffix(".0")
        texts = texts.where(texts.isin(list(_patterns())) | (years == ""), texts + " " + years)
    return [_read(text) for text in texts]


@lru_cache(maxsize=4096)
def _read(text: str) -> str:
    return read_framework(text)


@lru_cache(maxsize=64)
def profile(name: str) -> Framework:
    """The catalogue's profile of that name."""
    return catalog.load_framework(name)


@lru_cache(maxsize=1)
def _patterns() -> dict[str, tuple[str, ...]]:
    return {name: profile(name).names for name in catalog.names("framework")}
