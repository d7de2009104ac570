"""A model with its parameter counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.cli import output
from planner.physics import parameters

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.schema.model import Model

SHAPE = ("layers", "d_model", "heads", "kv_heads", "head_dim", "d_ff", "vocab", "sequence_length")


def model_document(model: Model) -> dict[str, Any]:
    """The architecture and its parameter counts as JSON."""
    counts = {name: count * times for name, count, times in _parts(model)}
    return {
        "kind": "model",
        **model.model_dump(mode="json", by_alias=True),
        "parameters": {
            "total": parameters.total(model),
            "active": parameters.active(model),
            "mtp": parameters.mtp(model),
            "by_part": counts,
        },
    }


def model_parts(model: Model) -> list[RenderableType]:
    """The architecture and its parameter counts as tables."""
    shape = output.table(f"{model.name} ({model.family}, {model.year})", "")
    for key in SHAPE:
        shape.add_row(key.replace("_", " "), f"{getattr(model, key):,}")
    if model.moe is not None:
        moe = model.moe
        shape.add_row("experts", f"{moe.experts:,}, {moe.top_k} for a token, {moe.shared_experts} shared")
        shape.add_row("mixture layers", f"{parameters.moe_layers(model):,}")
    if model.mla is not None:
        shape.add_row("attention", f"latent, {model.mla.kv_lora_rank} wide")
    counts = output.table("Parameters", "each", "times", "together")
    for name, count, times in _parts(model):
        counts.add_row(name, f"{count:,}", f"{times:,}", f"{count * times:,}")
    counts.add_section()
    counts.add_row("total", "", "", f"{parameters.total(model):,}")
    if model.moe is not None:
        counts.add_row("active for a token", "", "", f"{parameters.active(model):,}")
    if model.mtp_layers:
        counts.add_row("multi-token prediction, on top", "", "", f"{parameters.mtp(model):,}")
    lines: list[RenderableType] = [shape, counts]
    published = model.published.parameters
    if published:
        off = parameters.total(model) / published - 1
        lines.append(f"Published: {published:,.0f}; the total is {off:+.3%} off. {model.published.note}".strip())
    return [*lines, f"Source: {' '.join(model.source.split())}"]


def _parts(model: Model) -> list[tuple[str, int, int]]:
    """(part, elements of one, how many there are); they add up to the total."""
    layers, mixtures = model.layers, parameters.moe_layers(model)
    experts = model.moe.experts if model.moe else 0
    every = [
        ("embedding", parameters.embedding(model), 1),
        ("attention", parameters.attention(model), layers),
        ("dense feed-forward", parameters.dense_mlp(model), parameters.dense_layers(model)),
        ("routed experts", parameters.routed_expert(model), mixtures * experts),
        ("shared experts", parameters.shared_experts(model), mixtures),
        ("router", parameters.router(model), mixtures),
        ("norms of a layer", parameters.norms(model), layers),
        ("other of a layer", model.extra_parameters_per_layer, layers),
        ("final norm", parameters.norm(model), 1),
        ("output layer", parameters.head(model), 1),
        ("other", model.extra_parameters, 1),
    ]
    return [(name, count, times) for name, count, times in every if count and times]
