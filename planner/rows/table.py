"""A table of runs whose cells may be empty, badly typed or wrong; what is wrong with a row is noted beside it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from planner.algebra.expressions import Array
from planner.errors import InputError

Mask: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.intp]
Value = TypeVar("Value", bound=Hashable)

#: Spellings of an empty cell.
EMPTY = frozenset({"", "nan", "none", "null", "na", "n/a", "<na>"})

#: No count of a real run comes near.
LARGEST = 1e9


class Table:
    """The columns of ``frame`` by position, and the problems found in each row."""

    def __init__(self, frame: pd.DataFrame) -> None:
        doubled = sorted({str(name) for name in frame.columns[frame.columns.duplicated()]})
        if doubled:
            raise InputError([f"column {name}: appears more than once" for name in doubled])
        self.frame = frame
        self.size = len(frame)
        self._problems: dict[int, list[str]] = {}
        self._unreadable: dict[str, Mask] = {}

    def reject(self, where: Mask, reason: str | Callable[[int], str]) -> None:
        """Note ``reason``, or what it says of the row's position, as a problem of the rows ``where``."""
        for row in np.flatnonzero(where):
            self._problems.setdefault(int(row), []).append(reason if isinstance(reason, str) else reason(int(row)))

    @property
    def sound(self) -> Mask:
        """The rows without a problem so far; shape (rows,)."""
        mask = np.ones(self.size, dtype=bool)
        mask[list(self._problems)] = False
        return mask

    def readable(self, *names: str) -> Mask:
        """The rows whose cells in these columns could be read, empty ones included; shape (rows,)."""
        mask = np.ones(self.size, dtype=bool)
        for name in names:
            mask &= ~self._unreadable.get(name, np.zeros(self.size, dtype=bool))
        return mask

    @property
    def errors(self) -> list[str]:
        """Every row's problems in one line; an empty string where there is none."""
        found = [""] * self.size
        for row, problems in self._problems.items():
            found[row] = "; ".join(problems)
        return found

    def numbers(self, name: str) -> Array:
        """A column of whole numbers from 1, NaN where the cell is empty; other values are rejected and NaN."""
        if name not in self.frame.columns:
            return np.full(self.size, np.nan)
        column = self.frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
            values = column.to_numpy(dtype=float, na_value=np.nan)
        else:
            codes, texts = self.texts(name)
            values = np.array([_number(text) for text in texts] or [np.nan])[codes]
        wrong = ~np.isnan(values) & ~((values >= 1) & (values <= LARGEST) & (values == np.floor(values)))
        self._unreadable[name] = wrong
        if wrong.any():
            given = column.to_numpy(dtype=object)
            self.reject(wrong, lambda row: f"{name} = {_shown(given[row])}: must be a whole number from 1 to 1e9")
        return np.where(wrong, np.nan, values)

    def texts(self, name: str) -> tuple[Codes, list[str]]:
        """A column of text as (codes, distinct texts), stripped; an empty cell is the empty text."""
        if name not in self.frame.columns:
            return np.zeros(self.size, dtype=np.intp), [""]
        codes, distinct = pd.factorize(self.frame[name].to_numpy(dtype=object), use_na_sentinel=True)
        texts = [str(value).strip() for value in distinct]
        texts = ["" if text.lower() in ("nan", "<na>") else text for text in texts] + [""]
        return np.where(codes < 0, len(texts) - 1, codes).astype(np.intp), texts

    def parsed(self, name: str, reader: Callable[[str], Value], default: Value) -> tuple[Codes, list[Value]]:
        """A column of text as (codes, the distinct values that ``reader`` makes of its texts).

        Rows whose text ``reader`` raises `ValueError` about are rejected with its message, and get ``default``.
        """
        codes, texts = self.texts(name)
        values: list[Value] = []
        unreadable = np.zeros(self.size, dtype=bool)
        for code, text in enumerate(texts):
            try:
                values.append(reader(text))
            except ValueError as error:
                values.append(default)
                unreadable |= codes == code
                self.reject(codes == code, f"{name} = {_shown(text)}: {error}")
        self._unreadable[name] = unreadable
        return distinct(codes, values)


def distinct(codes: Codes, values: list[Value]) -> tuple[Codes, list[Value]]:
    """The same values by code, each of them once."""
    places: dict[Value, int] = {}
    renumbered = np.array([places.setdefault(value, len(places)) for value in values], dtype=np.intp)
    return renumbered[codes], list(places)


def _number(text: str) -> float:
    if text.lower() in EMPTY:
        return np.nan
    try:
        value = float(text)
    except ValueError:
        return -1.0  # rejected as any other number that is out of range
    return -1.0 if np.isnan(value) else value


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, int | float) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
