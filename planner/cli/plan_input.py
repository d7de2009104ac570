"""Reading a plan that ``planner solve`` wrote, with the problem that it answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.errors import InputError
from planner.schema.base import read_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from planner.instance import Instance


@dataclass(frozen=True)
class GivenPlan:
    """A plan's document, its instance, and the value of every axis."""

    document: dict[str, Any]
    instance: Instance
    columns: dict[str, int]


def read_plan(path: Path) -> GivenPlan:
    """The plan in the JSON file at ``path``.

    Raises `InputError` when it is missing, no JSON, no plan of ``planner solve``, or breaks a rule of its problem.
    """
    try:
        document = json.loads(read_bytes(path))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: is not valid JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("plan"), dict):
        raise InputError(f"{path}: holds no plan: a file that 'planner solve PROBLEM -o FILE' wrote is expected")
    inputs = document.get("inputs")
    if not isinstance(inputs, dict) or not isinstance(inputs.get("columns"), dict):
        raise InputError(f"{path}: inputs: is missing: solve the problem again with this version of planner")
    from planner.instance import revive

    instance = revive(inputs, str(path))
    columns = inputs["columns"]
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in columns.values()):
        raise InputError(f"{path}: inputs.columns: whole numbers are expected")
    import numpy as np

    arrays = {name: np.array([float(value)]) for name, value in columns.items()}
    lacking = sorted((set(instance.space.owner) | set(instance.space.constants)) - set(columns))
    if lacking:
        raise InputError(f"{path}: inputs.columns: {', '.join(lacking[:5])} missing")
    if not instance.space.holds(arrays)[0]:
        raise InputError(f"{path}: inputs.columns: the plan breaks a rule of its problem")
    return GivenPlan(document, instance, columns)
