"""A record as its file gives it, key by key, with what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planner.cli import output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.frontier.problem import Frontier
    from planner.schema.base import Strict


def record_document(kind: str, record: Strict) -> dict[str, Any]:
    """The record as JSON."""
    return {
        "kind": kind,
        **record.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=kind == "framework"),
    }


def frontier_document(frontier: Frontier) -> dict[str, Any]:
    """The frontier problem as JSON, with the model of its budget and the cluster sizes it may choose from."""
    model = frontier.model
    return record_document("problem", frontier.problem) | {
        "model": {
            "width": model.width, "ff": model.ff, "layers": model.layers, "experts": model.experts,
            "parameters": model.parameters, "tokens": model.tokens, "batch_tokens": model.batch,
            "compute_flop": model.compute,
        },
        "cluster_sizes": frontier.sizes,
    }  # fmt: skip


def document_parts(document: Mapping[str, Any]) -> list[RenderableType]:
    """A document as a table of its keys."""
    made = output.table(str(document.get("name", "")), "")
    made.columns[1].justify = "left"
    for key, value in _flat(document):
        made.add_row(key, value)
    return [made]


def _flat(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and len(value) > 8:
            yield prefix + key, f"{_text(value[0])} ... {_text(value[-1])} ({len(value)} values)"
        elif isinstance(value, list):
            yield prefix + key, ", ".join(_text(item) for item in value)
        else:
            yield prefix + key, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool | str):
        return " ".join(str(value).split())
    return f"{value:.6g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
