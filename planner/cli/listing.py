"""``planner list``: what the catalogue holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli import output
from planner.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType


def list_catalogue(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="[KIND]",
            help="model, hardware, cluster, framework, device, problem, sweep or scenario; all without it.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document: kinds and their names.")] = False,
) -> None:
    """List what comes with the planner."""
    from planner import catalog

    kinds = list(catalog.FOLDERS) if kind is None else [kind_named(kind)]
    if as_json:
        output.emit(output.as_json({name: catalog.names(name) for name in kinds}))
        return
    parts: list[RenderableType] = []
    for name in kinds:
        made = output.table(f"{name} ({len(catalog.names(name))})", "")
        made.columns[1].justify = "left"
        for entry in catalog.names(name):
            made.add_row(entry, _summary(name, entry))
        parts.append(made)
    output.emit(output.render(*parts))


def kind_named(text: str) -> str:
    """The kind of record that ``text`` means, in singular or plural. Raises `InputError` for any other word."""
    from planner import catalog

    for name in catalog.FOLDERS:
        if text.lower() in (name, f"{name}s"):
            return name
    raise InputError(f"kind {text!r}: is not one of {', '.join(catalog.FOLDERS)}")


def _summary(kind: str, name: str) -> str:
    from planner import catalog
    from planner.schema.base import read_toml

    document: dict[str, Any] = read_toml(catalog.root() / catalog.FOLDERS[kind] / f"{name}.toml")
    if kind == "model":
        return f"{document['family']}, {document['year']}: {document['layers']} layers of {document['d_model']}"
    if kind == "hardware":
        return f"{document['vendor']}, {document['year']}: {document['memory_gib']:g} GiB"
    if kind == "cluster":
        return f"{document['tiers'][-1]['size']:,} x {document['accelerator']}"
    if kind == "framework":
        measured = ", ".join(document.get("measured_on", [])) or "no runs of its own"
        return f"constants from {measured}"
    return str(document["name"])
