"""How many parameters an architecture has: exact integer formulas, one small function for each part of a layer.

Every function returns a count of elements. In the formulas ``d`` is `Model.d_model`, ``h`` the query heads, ``k`` the
key-value heads and ``e`` the head dimension; a bias term counts only where the architecture has that bias. The sum of
the parts equals the published counts to the digit (see ``tests/unit/test_parameters.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.schema.model import Experts, LatentAttention, Model


def attention(model: Model) -> int:
    """Attention of one layer (elements): projections, their biases, and the norms of queries and keys.

    Grouped-query attention: ``d h e + 2 d k e + h e d``; biases ``(h + 2 k) e`` and, for all four, ``d``;
    norms ``2 e`` for each head alike or ``(h + k) e`` over the whole width.
    """
    if model.mla is not None:
        return _latent_attention(model, model.mla)
    d, e = model.d_model, model.head_dim
    queries, keys = model.heads * e, model.kv_heads * e
    bias = {"none": 0, "qkv": queries + 2 * keys, "all": queries + 2 * keys + d}
    norm = {"none": 0, "head": 2 * e, "full": queries + keys}
    return 2 * d * queries + 2 * d * keys + bias[model.attention_bias] + norm[model.qk_norm]


def _latent_attention(model: Model, mla: LatentAttention) -> int:
    """Latent attention (elements), low-rank matrices and the norms between them; arXiv 2405.04434 section 2.1.

    Queries ``d r + r + r h (nope + rope)``, or ``d h (nope + rope)`` without a low rank ``r``; keys and values
    ``d (c + rope) + c + c h (nope + v)`` with the latent width ``c``; output ``h v d``. Only the projections from and
    to ``d`` can have a bias.
    """
    d, h, low, latent = model.d_model, model.heads, mla.q_lora_rank, mla.kv_lora_rank
    query = h * (mla.qk_nope_dim + mla.qk_rope_dim)
    queries = d * low + low + low * query if low else d * query
    down = latent + mla.qk_rope_dim
    keys_values = d * down + latent + latent * h * (mla.qk_nope_dim + mla.v_head_dim)
    bias = {"none": 0, "qkv": low + down, "all": low + down + d}
    return queries + keys_values + h * mla.v_head_dim * d + bias[model.attention_bias]


def _feed_forward(model: Model, width: int) -> int:
    """A feed-forward network of some width (elements): ``2 d width``, with a gate ``3 d width``; and its biases."""
    inputs = 2 if model.gated_mlp else 1
    bias = inputs * width + model.d_model if model.mlp_bias else 0
    return (inputs + 1) * model.d_model * width + bias


def dense_mlp(model: Model) -> int:
    """The feed-forward network of a dense layer (elements); 0 when every layer is a mixture."""
    return _feed_forward(model, model.d_ff) if model.d_ff else 0


def routed_expert(model: Model) -> int:
    """One routed expert (elements); 0 without a mixture."""
    return _feed_forward(model, model.moe.d_expert) if model.moe else 0


def shared_experts(model: Model) -> int:
    """All shared experts of one layer (elements), with their gate ``d`` where there is one."""
    moe = model.moe
    if moe is None or not moe.shared_experts:
        return 0
    return _feed_forward(model, moe.d_shared) + (model.d_model if moe.shared_gate else 0)


def router(model: Model) -> int:
    """The router of one mixture layer (elements): ``d experts``, and ``experts`` for its bias."""
    moe = model.moe
    if moe is None:
        return 0
    return model.d_model * moe.experts + (moe.experts if moe.router_bias else 0)


def norm(model: Model) -> int:
    """One normalisation over the model's width (elements): ``d``, with LayerNorm's bias ``2 d``."""
    return model.d_model * (2 if model.norm == "layernorm" else 1)


def norms(model: Model) -> int:
    """The normalisations of one layer (elements), without those inside the attention."""
    return model.norms_per_layer * norm(model)


def is_mixture(model: Model, layer: int) -> bool:
    """Whether the layer with this index (from 0) routes to experts."""
    moe = model.moe
    return moe is not None and layer >= moe.first_dense_layers and (layer + 1) % moe.layer_step == 0


def moe_layers(model: Model) -> int:
    """How many layers are mixtures: the multiples of the step in ``(first dense, layers]``."""
    moe = model.moe
    return 0 if moe is None else model.layers // moe.layer_step - moe.first_dense_layers // moe.layer_step


def dense_layers(model: Model) -> int:
    """How many layers have a dense feed-forward network."""
    return model.layers - moe_layers(model)


def layer(model: Model, *, mixture: bool) -> int:
    """One whole layer (elements), a mixture with all its experts or a dense one."""
    common = attention(model) + norms(model) + model.extra_parameters_per_layer
    return common + (_mixture(model, model.moe) if mixture and model.moe else dense_mlp(model))


def _mixture(model: Model, moe: Experts) -> int:
    return moe.experts * routed_expert(model) + shared_experts(model) + router(model)


def embedding(model: Model) -> int:
    """Token embedding and learned positions (elements): ``(vocab + positions) d``."""
    return (model.vocab + model.learned_positions) * model.d_model


def head(model: Model) -> int:
    """The output projection (elements): ``vocab d``, or 0 when it is the token embedding."""
    return 0 if model.tied_embeddings else model.vocab * model.d_model


def mtp(model: Model) -> int:
    """All multi-token-prediction modules (elements); arXiv 2412.19437 section 2.2.

    Each has a projection ``2 d x d``, a norm for either input and one for the output, and a layer like the last one.
    Embedding and head are the model's own, so they count nothing here.
    """
    last = layer(model, mixture=is_mixture(model, model.layers - 1))
    return model.mtp_layers * (2 * model.d_model**2 + 3 * norm(model) + last)


def total(model: Model) -> int:
    """All parameters (elements) without multi-token prediction: embedding, layers, final norm, head and extras."""
    layers = dense_layers(model) * layer(model, mixture=False) + moe_layers(model) * layer(model, mixture=True)
    return embedding(model) + layers + norm(model) + head(model) + model.extra_parameters


def active(model: Model) -> int:
    """The parameters that one token meets (elements): `total` less the routed experts it is not sent to."""
    idle = model.moe.experts - model.moe.top_k if model.moe else 0
    return total(model) - moe_layers(model) * idle * routed_expert(model)
