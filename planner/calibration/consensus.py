"""What is believed of a framework that was never measured: the constants of its relatives."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from planner.calibration.fit import with_values
from planner.calibration.parameters import PARAMETERS, Parameter
from planner.schema.framework import Assumptions, Framework

NAMES = frozenset(parameter.name for parameter in PARAMETERS)


def stated(framework: Framework) -> Framework:
    """``framework`` with what is known of it alone: no constant that a fit gave."""
    own = framework.assumptions
    said = {name: getattr(own, name) for name in own.model_fields_set - NAMES}
    return framework.model_copy(update={"assumptions": Assumptions.model_construct(**said), "on": {}})


def expected(framework: Framework, relatives: Iterable[Framework], accelerators: Iterable[str] = ()) -> Framework:
    """``framework`` with each constant as it is in the middle of its calibrated ``relatives``.

    Relatives of its own family come first, if there are any. On every accelerator on which relatives have constants of
    their own, it has the middle of these.
    """
    calibrated = [other for other in relatives if other.name != framework.name and _fitted(other.assumptions)]
    near = [other for other in calibrated if other.family == framework.family] or calibrated
    result = with_values(stated(framework), _middle([other.assumptions for other in near]))
    for hardware in accelerators:
        own = [other.on[hardware] for other in near if hardware in other.on]
        own += [other.assumptions for other in near if not other.on and hardware in other.measured_on]
        if own:
            result = with_values(result, _middle(own), hardware)
    return result


def beliefs(framework: Framework, doubt: float = 1.0) -> list[Parameter]:
    """What to believe of the constants where they are expected to be as in ``framework``."""
    from dataclasses import replace

    found = []
    for parameter in PARAMETERS:
        value = getattr(framework.assumptions, parameter.name)
        value = min(max(value, parameter.low), parameter.high)
        found.append(replace(parameter, usual=value, spread=doubt * parameter.spread))
    return found


def _middle(profiles: list[Assumptions]) -> dict[str, float]:
    fitted = [profile for profile in profiles if _fitted(profile)]
    values = {}
    for name in sorted(NAMES):
        known = [float(getattr(profile, name)) for profile in fitted if name in profile.model_fields_set]
        if known:
            values[name] = median(known)
    return values


def _fitted(assumptions: Assumptions) -> bool:
    return bool(assumptions.model_fields_set & NAMES)
