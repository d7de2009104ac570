"""What each pipeline stage of one plan holds: its layers, and its memory by part.

The program only looks at the stages that can be the fullest; here every stage is priced, with the same expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.algebra.breakdown import explain
from planner.physics import memory, stages

if TYPE_CHECKING:
    from planner.algebra.expressions import Expression
    from planner.physics.setting import Setting


@dataclass(frozen=True)
class StageUse:
    """One stage: its content, and the bytes of each part of its peak memory."""

    stage: int
    content: stages.Stage
    memory: Mapping[str, float]

    @property
    def total(self) -> float:
        """Peak memory of one accelerator of the stage, bytes."""
        return sum(self.memory.values())

    def to_json(self) -> dict[str, object]:
        """The stage as JSON."""
        return {
            "stage": self.stage,
            "layers": self.content.layers,
            "dense_layers": self.content.dense,
            "moe_layers": self.content.moe,
            "embedding": self.content.embeds,
            "output_layer": self.content.heads,
            "mtp_modules": self.content.mtp,  # counted among the layers
            "memory_bytes": {"total": self.total, "by_part": dict(self.memory)},
        }


def stage_uses(setting: Setting, plan: Mapping[str, int]) -> list[StageUse]:
    """Every stage of ``plan`` (column values), from the first to the last."""
    content = stages.stages(setting.model, plan["pp"], plan["vp"], setting.weighed)
    return [
        StageUse(stage, content[stage], explain(stage_memory(setting, stage, plan["pp"]), plan).flat())
        for stage in range(len(content))
    ]


def stage_memory(setting: Setting, stage: int, pp: int) -> Expression:
    """Peak memory of one accelerator of a stage, bytes; to be evaluated at plans of ``pp`` stages only."""
    place = -1 if stage == pp - 1 else stage
    return memory.stage_memory(setting, f"stage {stage}", stages.numbered(stage), place)
