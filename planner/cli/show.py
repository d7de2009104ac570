"""``planner show``: a model, accelerator, cluster or problem as the planner understands it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import output
from planner.cli.listing import kind_named
from planner.cli.show_record import document_parts, frontier_document, record_document
from planner.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.schema.cluster import Cluster
    from planner.schema.hardware import Hardware


def show(
    reference: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE", help="A catalogue name, a TOML file, or a Hugging Face config.json."),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="model, hardware, cluster, framework, device, problem, sweep or scenario.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Show a model, accelerator, cluster, framework, problem, frontier device, sweep or scenario."""
    from planner import catalog

    found = _kind_of(reference) if kind is None else kind_named(kind)
    if found == "model":
        from planner.cli.show_model import model_document, model_parts

        model = catalog.load_model(reference)
        document, parts = model_document(model), model_parts(model)
    elif found == "hardware":
        hardware = catalog.load_hardware(reference)
        document, parts = _document(found, hardware), _hardware_parts(hardware)
    elif found == "cluster":
        cluster = catalog.load_cluster(reference)
        document, parts = _document(found, cluster), _cluster_parts(cluster)
    elif found == "framework":
        document = record_document(found, catalog.load_framework(reference))
        parts = document_parts(document)
    elif found == "scenario":
        document = record_document(found, catalog.load_scenario(reference))
        parts = document_parts(document)
    elif found == "device":
        document = record_document(found, catalog.load_device(reference))
        parts = document_parts(document)
    elif found == "sweep":
        from planner.batch.sweeps import find_sweep

        document = record_document(found, find_sweep(reference)[1])
        parts = document_parts(document)
    elif _is_frontier(reference):
        from planner.frontier.loading import load_frontier

        document = frontier_document(load_frontier(reference))
        parts = document_parts(document)
    else:
        from planner.cli.show_problem import problem_document, problem_parts
        from planner.instance import load

        instance = load(reference)
        document, parts = problem_document(instance), problem_parts(instance)
    output.emit(output.as_json(document) if as_json else output.render(*parts))


def _is_frontier(reference: str) -> bool:
    from planner import catalog
    from planner.schema.base import read_toml

    return read_toml(catalog.locate("problem", reference)).get("kind") == "frontier"


def _kind_of(reference: str) -> str:
    """The kind of record that a name or a file holds. Raises `InputError` when there is none, or more than one."""
    from planner import catalog

    if catalog.looks_like_path(reference):
        return _kind_of_file(Path(reference))
    kinds = [kind for kind in catalog.FOLDERS if reference in catalog.names(kind)]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        raise InputError(f"{reference!r}: is a {' and a '.join(kinds)}; say which with --kind")
    import difflib

    known = [name for kind in catalog.FOLDERS for name in catalog.names(kind)]
    near = difflib.get_close_matches(reference, known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else "'planner list' shows what there is"
    raise InputError(f"{reference!r}: not in the catalogue; {hint}")


def _kind_of_file(path: Path) -> str:
    from planner.schema.base import read_toml

    if path.suffix == ".json":
        return "model"
    document = read_toml(path)
    for key, kind in (("training", "problem"), ("tiers", "cluster"), ("peak_tflop_per_s", "hardware"), ("solve", "scenario"),
                      ("frontier", "scenario"),
                      ("network", "problem"), ("assumptions", "framework"), ("multiprocessors", "device"),
                      ("problem", "sweep")):  # fmt: skip
        if key in document:
            return kind
    if "layers" in document or "d_model" in document:
        return "model"
    raise InputError(
        f"{path}: is no model, accelerator, cluster, framework, device, problem, sweep or scenario; say which with --kind"
    )


def _document(kind: str, record: Any) -> dict[str, Any]:
    return {"kind": kind, **record.model_dump(mode="json", by_alias=True)}


def _hardware_parts(hardware: Hardware) -> list[RenderableType]:
    made = output.table(hardware.name, "")
    for name, rate in hardware.peak_tflop_per_s:
        if rate is not None:
            made.add_row(f"dense {name}, TFLOP/s", f"{rate:,.4g}")
    made.add_row("memory, GiB", f"{hardware.memory_gib:.4g}")
    made.add_row("memory bandwidth, GB/s", f"{hardware.memory_gb_per_s:,.5g}")
    made.add_row("cores that take a tile each", f"{hardware.cores:,}")
    made.add_row(f"scale-up to {hardware.scale_up_domain}, GB/s", f"{hardware.scale_up_gb_per_s:.4g}")
    made.add_row("scale-out, GB/s", f"{hardware.scale_out_gb_per_s:.4g}")
    for label, value in (("power, W", hardware.tdp_w), ("price, USD an hour", hardware.usd_per_hour)):
        if value is not None:
            made.add_row(label, f"{value:.4g}")
    achieved = output.table("Achieved", "")
    for name, value in hardware.efficiency:
        if name != "source":
            achieved.add_row(name.replace("_", " "), str(value) if isinstance(value, tuple) else f"{value:.4g}")
    return [made, achieved, f"Profile: {hardware.efficiency.source}", *_sources(hardware)]


def _cluster_parts(cluster: Cluster) -> list[RenderableType]:
    made = output.table("Tier", "accelerators", "joins", "GB/s each", "latency, us", "efficiency")
    for tier, fanout in zip(cluster.tiers, cluster.fanouts, strict=True):
        made.add_row(tier.name, f"{tier.size:,}", f"{fanout:,}", f"{tier.bandwidth_gb_per_s:.4g}",
                     f"{tier.latency_us:.4g}", f"{tier.efficiency:.0%}")  # fmt: skip
    headline = f"{cluster.name}: {cluster.accelerators:,} x {cluster.accelerator}"
    return [headline, made, *_sources(cluster)]


def _sources(record: Any) -> list[RenderableType]:
    lines = [f"Source: {' '.join(record.source.split())}"]
    if record.note:
        lines.append(f"Note: {' '.join(record.note.split())}")
    return list(lines)
