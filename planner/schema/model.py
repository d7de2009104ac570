"""A transformer architecture: what is trained. Shapes only; costs live in `planner.physics`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from planner.schema.base import Strict

Count = Annotated[int, Field(ge=1)]
Number = Annotated[int, Field(ge=0)]


class Experts(Strict):
    """Mixture-of-experts feed-forward: ``experts`` routed, ``top_k`` used by a token, and shared ones."""

    experts: Count
    top_k: Count
    d_expert: Count  # width of one routed expert
    shared_experts: Number = 0
    d_shared: Number = 0  # total width of the shared experts
    shared_gate: bool = False  # a d_model -> 1 gate on the shared experts (Qwen2-MoE)
    first_dense_layers: Number = 0  # leading layers with a dense feed-forward
    layer_step: Count = 1  # every layer_step-th layer (the last of each group) is a mixture
    router_bias: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.top_k > self.experts:
            raise ValueError(f"moe.top_k = {self.top_k} exceeds moe.experts = {self.experts}")
        if (self.shared_experts == 0) != (self.d_shared == 0):
            raise ValueError("moe.shared_experts and moe.d_shared must both be given or both be zero")
        return self


class LatentAttention(Strict):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): low-rank queries, keys and values."""

    q_lora_rank: Number  # 0: queries are projected directly
    kv_lora_rank: Count
    qk_nope_dim: Count
    qk_rope_dim: Count
    v_head_dim: Count


class SlidingWindow(Strict):
    """Local attention: all but every ``global_every``-th layer see only the last ``window`` tokens."""

    window: Count
    global_every: Number = 0  # 0: every layer is local; 2: every second layer is global


class Published(Strict):
    """What the makers say, to compare with. ``note`` says why a figure differs by more than 0.1 %."""

    parameters: Annotated[float, Field(gt=0)] | None = None
    active_parameters: Annotated[float, Field(gt=0)] | None = None
    training_tokens: Annotated[float, Field(gt=0)] | None = None
    source: str = ""
    note: str = ""


class Model(Strict):
    """One architecture. Dimensions are counts of elements."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    family: str
    year: Annotated[int, Field(ge=2012, le=2100)]
    source: str  # where the shape was read
    layers: Count
    d_model: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    d_ff: Number  # dense feed-forward width; 0 when every layer is a mixture
    gated_mlp: bool
    vocab: Count
    tied_embeddings: bool
    sequence_length: Count  # longest context it was trained for
    norm: Literal["layernorm", "rmsnorm"] = "rmsnorm"
    norms_per_layer: Annotated[int, Field(ge=0, le=4)] = 2
    attention_bias: Literal["none", "qkv", "all"] = "none"
    mlp_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"
    learned_positions: Number = 0
    extra_parameters: int = 0  # once for the model (an extra norm ...); negative where the formulas count too much
    extra_parameters_per_layer: Number = 0  # attention sinks, relative-position projections ...
    mtp_layers: Number = 0  # multi-token-prediction modules (DeepSeek-V3, arXiv 2412.19437)
    moe: Experts | None = None
    mla: LatentAttention | None = None
    sliding_window: SlidingWindow | None = None
    published: Published = Published()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = []
        if self.mla is None and self.heads % self.kv_heads:
            problems.append(f"heads = {self.heads} is not a multiple of kv_heads = {self.kv_heads}")
        if self.moe is None and self.d_ff == 0:
            problems.append("d_ff = 0 needs a [moe] table")
        if self.moe is not None and self.moe.first_dense_layers > self.layers:
            problems.append(f"moe.first_dense_layers = {self.moe.first_dense_layers} exceeds layers = {self.layers}")
        if self.d_ff == 0 and self.moe is not None and (self.moe.first_dense_layers or self.moe.layer_step > 1):
            problems.append("d_ff = 0 but some layers are dense")
        if self.extra_parameters < -self.vocab * self.d_model:
            problems.append(f"extra_parameters = {self.extra_parameters} takes off more than the token embedding")
        if problems:
            raise ValueError("; ".join(problems))
        return self
