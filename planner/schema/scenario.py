"""A scenario: a lever that overlays any problem."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from planner.schema.base import Strict
from planner.schema.problem import Name


class Scenario(Strict):
    """Keys that are set together: of a training problem (``solve``), of a frontier problem (``frontier``), or of both.

    Where one is missing, the lever has no meaning, or no formula, for that kind.
    """

    schema_version: int = Field(alias="schema", ge=1, le=1)
    name: Name
    description: str
    source: str
    solve: dict[str, Any] | None = None
    frontier: dict[str, Any] | None = None
