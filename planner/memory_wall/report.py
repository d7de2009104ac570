"""All tables of the memory wall, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner import catalog
from planner.errors import InputError
from planner.memory_wall import published
from planner.memory_wall.claims import RATE_TOLERANCE, claims
from planner.memory_wall.comparison import Cell, Column, Table
from planner.memory_wall.published import Point
from planner.memory_wall.tables import ADAM, GIB, PARAMETERS, PETA, STATE_BYTES, TRAINING, Network, Wall
from planner.memory_wall.transformers import Transformer, parameter_count, training_flop
from planner.memory_wall.trends import trends

DRAWN = {
    "transformers": "README.md",
    "vision": "README.md",
    "training": "README.md",
    "sizes": "figure",
    "compute": "figure",
}


def build(names: Sequence[str] = (), hardware: Sequence[str] = ()) -> list[Table]:
    """The named tables, all of them without a name; ``hardware`` as for `Wall`.

    Raises `InputError` for a name that is none of `TABLES`, and for an accelerator that the catalogue does not have.
    """
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise InputError(f"table {unknown[0]!r}: must be one of {', '.join(TABLES)}")
    wall = Wall(hardware)
    return [TABLES[name](wall) for name in (names or TABLES)]


def figure_table(wall: Wall) -> Table:
    """What the figures draw for each model, beside what its shape says."""
    sizes = {point.name: point for point in published.sizes()}
    compute = {point.name: point for point in published.compute()}
    rows: list[dict[str, Cell]] = []
    found: set[str] = set()
    for model in wall.models:
        size, run = _drawn(sizes, model.names), _drawn(compute, model.names)
        drawn = [point for point in (size, run) if point is not None]
        if not drawn:
            continue
        found |= {point.name for point in drawn}
        flop = model.training_flop if isinstance(model, Network) else training_flop(model)
        count = float(model.cost.parameters if isinstance(model, Network) else parameter_count(model))
        size_drawn = None if size is None else size.value
        run_drawn, pflop = None if run is None else run.value / PETA, None if flop is None else flop / PETA
        rows.append({
            "model": model.names[0], "date": drawn[0].date.isoformat(),
            "parameters": wall.compare("sizes", model, "parameters", count, size_drawn, PARAMETERS),
            "training_pflop": wall.compare("compute", model, "training_pflop", pflop, run_drawn, TRAINING),
        })  # fmt: skip
    missing = sorted((sizes.keys() | compute.keys()) - found)
    columns = (
        Column("model", "Drawn in the figures"), Column("date", "date"), Column("parameters", "params,\nM", 1e6),
        Column("training_pflop", "training,\nPFLOP"),
    )  # fmt: skip
    note = f"Drawn and fitted, not computed by shape: {', '.join(missing)}."
    return Table("figures", "Points of the figures", columns, tuple(rows), (note,))


def _drawn(points: dict[str, Point], names: list[str]) -> Point | None:
    return next((points[name] for name in names if name in points), None)


def accelerator_table(wall: Wall) -> Table:
    """How many times each accelerator's memory a training step of every model takes, by the source's rules.

    Memory is what a process can address where the catalogue has the part (`Hardware.memory_gib`), else nominal.
    """
    memory = _memories(wall)
    batches = {name: int(row["batch"]) for name, row in published.table("training").items()}
    rows: list[dict[str, Cell]] = []
    for model in wall.models:
        batch = next((batches[name] for name in model.names if name in batches), 1)
        need = _need(wall, model, batch)
        shares: dict[str, Cell] = {name: need / (gib * GIB) for name, gib in memory.items()}
        rows.append({"model": model.names[0], "batch": batch, "need_gib": need / GIB, **shares})
    columns = (
        Column("model", "Times its memory"), Column("batch", "batch"), Column("need_gib", "GiB", digits=3),
        *(Column(name, _heading(name), digits=2, least=0.01) for name in memory),
    )  # fmt: skip
    notes = (
        "A training step's memory over the accelerator's: above 1 it does not fit. States in fp32 without gradients, as the "
        "source counts; batch 1 where it has none.",
        "Mixtures of experts: states only.",
        "Memory: " + ", ".join(f"{name} {gib:g} GiB" for name, gib in memory.items()) + ".",
    )
    return Table("accelerators", "Models against accelerators", columns, tuple(rows), notes)


def _heading(accelerator: str) -> str:
    """``A100-80 (80GB)`` as ``A100`` over ``80GB``; names of the catalogue as they are."""
    name, opened, size = accelerator.partition(" (")
    return f"{name.partition('-')[0]}\n{size.rstrip(')')}" if opened else accelerator


def _memories(wall: Wall) -> dict[str, float]:
    """GiB by accelerator: those asked for, else those of the source."""
    if wall.hardware:
        return {name: catalog.load_hardware(name).memory_gib for name in wall.hardware}
    return {
        chip.name: catalog.load_hardware(chip.hardware).memory_gib if chip.hardware else chip.memory_gb
        for chip in published.accelerators()
    }


def _need(wall: Wall, model: Network | Transformer, batch: int) -> float:
    """Bytes of a training step; the states alone where activations are unknown."""
    memory = wall.memory(model, batch)
    if memory is not None:
        return memory.total
    assert isinstance(model, Transformer)
    return STATE_BYTES * (1.0 + ADAM) * parameter_count(model)


def trend_table(wall: Wall) -> Table:
    """Growth of each series in two and in twenty years, beside the legend of its figure."""
    rows: list[dict[str, Cell]] = []
    for trend in trends():
        legend, line = trend.legend, trend.fit
        rows.append({
            "series": legend.name, "points": line.points, "from": line.first.year, "to": line.last.year,
            "two_years": line.rate(2), "twenty_years": line.rate(20), "doubling_years": line.doubling_years,
            "printed": legend.growth, "printed_years": legend.years, "deviation": trend.deviation,
            "scatter": 10.0**line.deviation, "source": legend.source,
        })  # fmt: skip
    columns = (
        Column("series", "Grows times"), Column("points", "points"), Column("from", "from"), Column("to", "to"),
        Column("two_years", "in 2\nyears"), Column("twenty_years", "in 20\nyears"),
        Column("doubling_years", "doubles,\nyears"), Column("printed", "printed"),
        Column("printed_years", "years"), Column("deviation", "off"), Column("scatter", "scatter, x"),
        Column("source", "source"),
    )  # fmt: skip
    note = "Least squares of log10(value) on the date, over all points that the figure draws its line through."
    return Table("trends", "Trends", columns, tuple(rows), (note,))


def claim_table(wall: Wall) -> Table:
    """The paper's claims, each with the number computed, the verdict and the condition."""
    rows: list[dict[str, Cell]] = []
    for claim in claims(wall):
        said, found = claim.published, claim.finding
        rows.append({
            "key": said.key, "claim": said.claim, "low": said.low, "high": said.high, "unit": said.unit,
            "computed": found.computed, "verdict": found.verdict, "condition": found.condition,
            "edition": said.edition, "source": said.source,
        })  # fmt: skip
    columns = tuple(
        Column(key, heading)
        for key, heading in (
            ("key", "Claim"), ("claim", "what is said"), ("low", "said"), ("high", "to"), ("unit", "unit"),
            ("computed", "computed"), ("verdict", "verdict"), ("condition", "condition"), ("edition", "edition"),
            ("source", "source"),
        )
    )  # fmt: skip
    note = f"A growth rate holds within {RATE_TOLERANCE:.0%} of the fit."
    return Table("claims", "Claims", columns, tuple(rows), (note,))


def remark_table(wall: Wall) -> Table:
    """Every published value that is not the computed one: errors of the source, and what could not be reproduced."""
    rows: list[dict[str, Cell]] = [
        {
            "model": remark.model, "value": remark.column, "in": f"{remark.table}, {DRAWN[remark.table]}",
            "fault": "source error" if remark.wrong else "differs", "reason": remark.reason, "source": remark.source,
        }
        for remark in sorted(wall.remarks, key=lambda remark: not remark.wrong)
    ]  # fmt: skip
    columns = tuple(
        Column(key, heading)
        for key, heading in (
            ("model", "Published value"), ("value", "column"), ("in", "table"), ("fault", "what"), ("reason", "reason"),
            ("source", "source"),
        )
    )  # fmt: skip
    return Table("errors", "Errors of the source, and what is not reproduced", columns, tuple(rows))


TABLES: dict[str, Callable[[Wall], Table]] = {
    "transformers": Wall.transformer_table, "vision": Wall.vision_table, "memory": Wall.memory_table,
    "accelerators": accelerator_table, "figures": figure_table, "trends": trend_table, "claims": claim_table,
    "errors": remark_table,
}  # fmt: skip
