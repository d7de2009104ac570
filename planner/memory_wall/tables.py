"""The tables of the memory wall: what models need, computed by their shapes, beside what is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from planner import catalog
from planner.memory_wall import published
from planner.memory_wall.comparison import Cell, Column, Compared, Table, remark_on
from planner.memory_wall.convolution import NetworkCost, network_cost
from planner.memory_wall.transformers import (
    BACKWARD,
    Transformer,
    activation_bytes,
    feature_count,
    forward_flop,
    load_transformers,
    parameter_count,
    training_flop,
)
from planner.memory_wall.vision import ConvolutionalNetwork
from planner.schema.base import read_toml, validate

GIGA, PETA, GIB = 1e9, 1e15, 1024.0**3
STATE_BYTES = 4  # parameters and each of the optimizer's states in fp32; the source counts no gradients
MOMENTUM, ADAM = 1, 2  # states of the optimizer: convolutional networks, transformers

#: Relative. The formulas of features, FLOP and activations hold to 2.5 % (``#Features`` and the like are printed with two
#: digits); parameters and what follows from them and from counted sequences are compared more loosely.
FORMULA, PARAMETERS, TRAINING = 0.025, 0.04, 0.05


@dataclass(frozen=True)
class Network:
    """A convolutional network with its cost."""

    record: ConvolutionalNetwork
    cost: NetworkCost

    @property
    def names(self) -> list[str]:
        """Its names in the published tables."""
        return [self.record.name, *self.record.also_named]

    @property
    def inferred(self) -> bool:
        """Whether the number of images comes from the published training compute."""
        return self.record.training is not None and self.record.training.inferred

    @property
    def training_flop(self) -> float | None:
        """FLOP of the whole training run, three forward passes for each image; None where their number is unknown."""
        training = self.record.training
        return None if training is None else (1 + BACKWARD) * self.cost.forward_flop * training.images


@dataclass(frozen=True)
class TrainingMemory:
    """What training keeps (bytes), by the source's rules: states in fp32, no gradients, one accelerator."""

    parameters: float
    optimizer: float
    activations: float

    @property
    def total(self) -> float:
        """All of it, bytes."""
        return self.parameters + self.optimizer + self.activations

    @property
    def activation_ratio(self) -> float:
        """Activations over parameters and optimizer."""
        return self.activations / (self.parameters + self.optimizer)


class Wall:
    """Every model of the memory wall, read once, and the tables made of them.

    ``hardware`` names the accelerators of the catalogue to hold models against; without it, those of the source.
    """

    def __init__(self, hardware: Sequence[str] = ()) -> None:
        self.hardware = tuple(hardware)

    @cached_property
    def networks(self) -> list[Network]:
        """The convolutional networks of ``models/vision``, by year. Raises `InputError` where a file is wrong."""
        found = []
        for path in sorted((catalog.root() / "models" / "vision").glob("*.toml")):
            record = validate(ConvolutionalNetwork, read_toml(path), str(path))
            found.append(Network(record, network_cost(record)))
        return sorted(found, key=lambda network: network.record.year)

    @cached_property
    def transformers(self) -> list[Transformer]:
        """The transformers, by date."""
        return load_transformers(catalog.root() / "instances" / "memory_wall" / "transformers.toml")

    @property
    def models(self) -> list[Network | Transformer]:
        """All of them, convolutional networks first."""
        return [*self.networks, *self.transformers]

    @cached_property
    def remarks(self) -> list[published.Remark]:
        """What is known about published values that differ from ours."""
        return published.remarks()

    def find(self, name: str) -> Network | Transformer | None:
        """The model that the published tables call ``name``; None where it is not computed."""
        return next((model for model in self.models if name in model.names), None)

    def memory(self, model: Network | Transformer, batch: int) -> TrainingMemory | None:
        """What training with so many images or sequences keeps; None for mixtures of experts."""
        if isinstance(model, Network):
            states = STATE_BYTES * float(model.cost.parameters)
            return TrainingMemory(states, MOMENTUM * states, batch * float(model.cost.activation_bytes))
        states, activations = STATE_BYTES * float(parameter_count(model)), activation_bytes(model, batch)
        return None if activations is None else TrainingMemory(states, ADAM * states, activations)

    def compare(
        self, table: str, model: Network | Transformer, column: str, computed: float | None, printed: float | None,
        tolerance: float,
    ) -> Compared:  # fmt: skip
        """A computed value of a model beside the printed one, with what is known about it."""
        remark = remark_on(self.remarks, table, model.names, column)
        return Compared(computed, printed, tolerance, remark, inferred=column == "training_pflop" and model.inferred)

    def transformer_table(self) -> Table:
        """Parameters, features, forward FLOP and training FLOP of the transformers."""
        printed = published.table("transformers")
        rows: list[dict[str, Cell]] = []
        for model in self.transformers:
            row = next((printed[name] for name in model.names if name in printed), {})
            forward = forward_flop(model)
            values: list[tuple[str, float | None, float, float]] = [
                ("parameters", parameter_count(model), 1.0, PARAMETERS),
                ("features", feature_count(model), 1.0, FORMULA),
                ("forward_gflop", forward, GIGA, FORMULA),
                ("training_pflop", training_flop(model), PETA, TRAINING),
            ]
            cells = self._cells("transformers", model, values, row)
            rows.append({"model": model.entry.name, "length": model.entry.length, **cells})
        columns = (
            Column("model", "Transformer"), Column("length", "tokens"), Column("parameters", "params,\nM", 1e6),
            Column("features", "features,\nM", 1e6), Column("forward_gflop", "forward,\nGFLOP"),
            Column("training_pflop", "training,\nPFLOP"),
        )  # fmt: skip
        missing = sorted(name for name in printed if self.find(name) is None)
        note = f"Not computed, no stacks of transformer layers (recurrent, or embedding tables): {', '.join(missing)}."
        return Table("transformers", "Transformers, one sequence", columns, tuple(rows), (note,))

    def vision_table(self) -> Table:
        """Parameters, forward FLOP, activations and training FLOP of the convolutional networks."""
        printed = published.table("vision")
        rows: list[dict[str, Cell]] = []
        for model in self.networks:
            row = next((printed[name] for name in model.names if name in printed), {})
            values: list[tuple[str, float | None, float, float]] = [
                ("parameters", model.cost.parameters, 1.0, PARAMETERS),
                ("forward_gflop", model.cost.forward_flop, GIGA, FORMULA),
                ("training_pflop", model.training_flop, PETA, TRAINING),
            ]
            cells = self._cells("vision", model, values, row)
            kept = model.cost.activation_bytes
            rows.append(
                {"model": model.record.name, "input": model.record.input_size, "activation_bytes": kept, **cells}
            )
        columns = (
            Column("model", "Network"), Column("input", "pixels"), Column("parameters", "params,\nM", 1e6),
            Column("activation_bytes", "kept,\nMB", 1e6), Column("forward_gflop", "forward,\nGFLOP"),
            Column("training_pflop", "training,\nPFLOP"),
        )  # fmt: skip
        return Table("vision", "Convolutional networks, one image", columns, tuple(rows))

    def memory_table(self) -> Table:
        """Parameter, optimizer and activation memory of a training step, against the accelerator of the time."""
        rows: list[dict[str, Cell]] = []
        for name, row in published.table("training").items():
            model, batch = self.find(name), int(row["batch"])
            memory = None if model is None else self.memory(model, batch)
            if model is None or memory is None:
                continue
            values: list[tuple[str, float | None, float, float]] = [
                ("parameters_gib", memory.parameters, GIB, PARAMETERS), ("optimizer_gib", memory.optimizer, GIB, PARAMETERS),
                ("activations_gib", memory.activations, GIB, FORMULA), ("total_gib", memory.total, GIB, FORMULA),
            ]  # fmt: skip
            limit = row["limit_gb"]
            rows.append({
                "model": name, "batch": batch, **self._cells("training", model, values, row),
                "activation_ratio": memory.activation_ratio, "limit_gb": limit,
                "of_limit": memory.total / (limit * GIB),
            })  # fmt: skip
        columns = (
            Column("model", "Memory, GiB"), Column("batch", "batch"), Column("parameters_gib", "params"),
            Column("optimizer_gib", "optim."), Column("activations_gib", "activ."), Column("total_gib", "total"),
            Column("activation_ratio", "ratio", digits=3), Column("limit_gb", "GPU"), Column("of_limit", "used", digits=2),
        )  # fmt: skip
        return Table("memory", "Memory of a training step", columns, tuple(rows), (
            "ratio: activations over parameters and optimizer. GPU: memory of the accelerator of the time, GB; used: of it.",
        ))  # fmt: skip

    def _cells(
        self, table: str, model: Network | Transformer, values: list[tuple[str, float | None, float, float]],
        row: dict[str, float],
    ) -> dict[str, Cell]:  # fmt: skip
        return {
            column: self.compare(
                table, model, column, None if value is None else value / unit, row.get(column), tolerance
            )
            for column, value, unit, tolerance in values
        }
