"""What a transformer costs by its shape alone: parameters, features, FLOP, and activation memory of a training step.

``s`` tokens, ``b`` sequences, ``L`` layers, ``h`` width, ``a`` heads, ``f`` width of the feed-forward, ``V`` vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from planner import catalog
from planner.errors import InputError
from planner.physics import parameters
from planner.physics.compute import product_shapes
from planner.schema.base import Strict, read_toml, validate
from planner.schema.model import Count, Number

if TYPE_CHECKING:
    from planner.schema.model import Model

BACKWARD = 2  # FLOP of a backward pass, in forward passes: gradients of inputs and of weights


class WallTransformer(Strict):
    """One transformer of the memory wall's tables: its architecture, and what a plain stack of layers does not say."""

    name: str
    also_named: tuple[str, ...] = Field(default=(), strict=False)  # in the published tables
    model: str  # a name of the catalogue or a file
    length: Count  # tokens of a sequence
    cross_attention_layers: Number = 0  # how many layers also attend to an encoder's output
    shared_layers: bool = False  # all layers are one set of parameters
    embedding_width: Count | None = None  # of a factorised embedding
    sequences: Annotated[float, Field(gt=0)] | None = None  # that the training run saw
    training_length: Count | None = None  # tokens of each of them; left out: `length`
    source: str = ""  # of the training run
    inferred: bool = False  # whether `sequences` was taken from the published training compute


class _Transformers(Strict):
    schema_version: Literal[1] = Field(alias="schema")
    transformer: list[WallTransformer]


@dataclass(frozen=True)
class Transformer:
    """A transformer with its architecture resolved."""

    entry: WallTransformer
    model: Model

    @property
    def names(self) -> list[str]:
        """Its names in the published tables."""
        return [self.entry.name, *self.entry.also_named]

    @property
    def inferred(self) -> bool:
        """Whether the number of sequences comes from the published training compute."""
        return self.entry.inferred


def load_transformers(path: Path) -> list[Transformer]:
    """The transformers of the file at ``path``. Raises `InputError` where it, or a model it names, is wrong."""
    entries = validate(_Transformers, read_toml(path), str(path)).transformer
    found = [Transformer(entry, catalog.load_model(entry.model, path.parent)) for entry in entries]
    for transformer in found:
        if transformer.entry.cross_attention_layers > transformer.model.layers:
            key = f"cross_attention_layers = {transformer.entry.cross_attention_layers}"
            raise InputError(f"{path}: {transformer.entry.name}: {key} exceeds the {transformer.model.layers} layers")
    return found


def parameter_count(transformer: Transformer) -> int:
    """Parameters (elements): `planner.physics.parameters.total`, with what the catalogue's schema does not say.

    Cross-attention adds an attention and a norm to a layer. Layers that share their parameters count once. A factorised
    embedding has ``V e + e h`` elements instead of ``V h``.
    """
    model, entry = transformer.model, transformer.entry
    count = parameters.total(model)
    count += entry.cross_attention_layers * (parameters.attention(model) + parameters.norm(model))
    if entry.shared_layers:
        count -= (model.layers - 1) * parameters.layer(model, mixture=False)
    if entry.embedding_width is not None:
        count += entry.embedding_width * (model.vocab + model.d_model) - model.vocab * model.d_model
    return count


def feature_count(transformer: Transformer) -> float | None:
    """Features of one sequence (elements); None for mixtures of experts.

    ``L s (6 h + f + a s)``, which is ``L s h (10 + a s / h)`` with ``f = 4 h``: queries, keys, values, the attention's
    output before and after its projection, the hidden layer, the output; and the scores. Cross-attention adds
    ``s (5 h + a s)`` to a layer.
    """
    model, s = transformer.model, transformer.entry.length
    if model.moe is not None:
        return None
    inner = model.heads * model.head_dim
    attention = s * (4 * inner + model.d_model + model.heads * s)
    layer = attention + s * (model.d_ff + model.d_model)
    return float(model.layers * layer + transformer.entry.cross_attention_layers * attention)


def forward_flop(transformer: Transformer, length: int | None = None) -> float | None:
    """FLOP of one sequence's forward pass, without the output layer; None for mixtures of experts.

    ``L (24 s h^2 + 4 s^2 h)`` with ``f = 4 h``: two for each weight and token, and the products of scores and values, all
    of them (no causal saving). Cross-attention adds ``8 s h^2 + 4 s^2 h`` to a layer.
    """
    model = transformer.model
    s = transformer.entry.length if length is None else length
    if model.moe is not None:
        return None
    shapes = product_shapes(model, moe=False)
    core = 4 * s**2 * model.heads * model.head_dim
    layer = core + 2 * s * sum(inner * outer for inner, outer, _ in shapes)
    cross = core + 2 * s * sum(inner * outer for inner, outer, _ in shapes[:2])
    return float(model.layers * layer + transformer.entry.cross_attention_layers * cross)


def training_flop(transformer: Transformer) -> float | None:
    """FLOP of the whole training run: three forward passes for each sequence; None where its length is unknown."""
    entry = transformer.entry
    forward = forward_flop(transformer, entry.training_length)
    if forward is None or entry.sequences is None:
        return None
    return (1 + BACKWARD) * forward * entry.sequences


def layer_activation_bytes(model: Model, length: int, batch: int = 1) -> float:
    """What one layer keeps for its backward pass (bytes), 16-bit values and one-byte dropout masks.

    ``s b h (34 + 5 a s / h)`` with ``f = 4 h`` (arXiv 2205.05198, equation 1): attention ``11 h + 5 a s``, feed-forward
    ``3 h + 4 f`` and norms ``4 h`` for each token.
    """
    per_token = 18 * model.d_model + 4 * model.d_ff + 5 * model.heads * length
    return float(length * batch * per_token)


def activation_bytes(transformer: Transformer, batch: int = 1) -> float | None:
    """What a training step keeps for its backward pass (bytes), without recomputation; None for mixtures of experts.

    All layers; ``13 h + 5 a s`` a token for each cross-attention with its norm; and outside the layers ``5 h + 2 V``: the
    embedding's dropout mask, the inputs of the last norm and of the output layer, and the logits in 16 bits.
    """
    model, length = transformer.model, transformer.entry.length
    if model.moe is not None:
        return None
    cross = 13 * model.d_model + 5 * model.heads * length
    tokens = length * batch
    ends = 5 * model.d_model + 2 * model.vocab
    layers = model.layers * layer_activation_bytes(model, length, batch)
    return layers + tokens * (transformer.entry.cross_attention_layers * cross + ends)
