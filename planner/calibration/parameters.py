"""The constants that measurements may set: what each means, where it starts, and how far it is believed to lie."""

from __future__ import annotations

from dataclasses import dataclass

from planner.schema.framework import Assumptions


@dataclass(frozen=True)
class Parameter:
    """A constant of a framework's profile.

    ``usual`` is what is believed without measurements, ``spread`` the standard deviation of that belief: of the
    logarithm, or of the value itself where ``fraction`` (a value between 0 and 1).
    """

    name: str
    usual: float
    spread: float
    low: float
    high: float
    fraction: bool = False

    def inward(self, value: float) -> float:
        """The value on the scale of the fit."""
        from math import log

        return value if self.fraction else log(value)

    def outward(self, position: float) -> float:
        """The value at a position on the scale of the fit."""
        from math import exp

        return position if self.fraction else exp(position)


#: In `Assumptions`, where the meaning and the unit of each stand.
PARAMETERS = (
    Parameter("matmul_rate", 0.95, 0.12, 0.5, 1.2),
    Parameter("attention_rate", 0.7, 0.5, 0.15, 1.5),
    Parameter("elementwise", 1.4, 0.4, 0.8, 6.0),
    Parameter("host_ms", 0.7, 0.8, 0.01, 10.0),
    Parameter("host_moe_ms", 2.5, 0.8, 0.02, 30.0),
    Parameter("step_ms", 20.0, 1.2, 0.1, 2000.0),
    Parameter("collective_us", 30.0, 0.6, 5.0, 400.0),
    Parameter("network_us", 60.0, 0.8, 5.0, 3000.0),
    Parameter("reductions_per_layer", 1.5, 0.8, 0.1, 40.0),
    Parameter("dp_overlap", 0.6, 0.3, 0.0, 1.0, fraction=True),
    Parameter("tp_overlap", 0.2, 0.2, 0.0, 0.95, fraction=True),
    Parameter("ep_overlap", 0.2, 0.2, 0.0, 0.95, fraction=True),
)

assert all(parameter.name in Assumptions.model_fields for parameter in PARAMETERS)
