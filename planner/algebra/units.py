"""Units as products of powers of base symbols, checked when quantities are added."""

from __future__ import annotations

from dataclasses import dataclass

from planner.errors import UnitError


@dataclass(frozen=True)
class Unit:
    """A product of powers of base symbols, such as ``B s^-1``."""

    powers: tuple[tuple[str, int], ...] = ()

    @classmethod
    def base(cls, symbol: str) -> Unit:
        """The unit called ``symbol``."""
        return cls(((symbol, 1),))

    def __mul__(self, other: Unit) -> Unit:
        return self._combine(other, 1)

    def __truediv__(self, other: Unit) -> Unit:
        return self._combine(other, -1)

    def _combine(self, other: Unit, sign: int) -> Unit:
        total = dict(self.powers)
        for symbol, power in other.powers:
            total[symbol] = total.get(symbol, 0) + sign * power
        return Unit(tuple(sorted((symbol, power) for symbol, power in total.items() if power)))

    def __str__(self) -> str:
        return " ".join(symbol if power == 1 else f"{symbol}^{power}" for symbol, power in self.powers) or "1"


ONE = Unit()
SECOND = Unit.base("s")
BYTE = Unit.base("B")
FLOP = Unit.base("FLOP")


def common(units: list[Unit], what: str) -> Unit:
    """The one unit that all of ``units`` are. Raises `UnitError` when they differ."""
    for unit in units[1:]:
        if unit != units[0]:
            raise UnitError(f"{what}: cannot combine {units[0]} with {unit}")
    return units[0]
