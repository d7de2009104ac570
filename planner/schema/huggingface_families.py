"""The Hugging Face model types that can be planned, as data: one `Family` for each ``model_type``.

An entry says what the architecture fixes (gate, norms, biases) and what Hugging Face transformers (4.57) assumes where
``config.json`` is silent. `KEYS` lists the spellings of every dimension.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Our name of a dimension, and how config files spell it.
KEYS: dict[str, tuple[str, ...]] = {
    "d_model": ("hidden_size", "n_embd", "n_embed", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim",),
    "d_ff": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "vocab": ("vocab_size",),
    "sequence_length": ("max_position_embeddings", "n_positions", "seq_length"),
    "sliding_window": ("sliding_window",),
    "global_every": ("sliding_window_pattern", "_sliding_window_pattern"),
    "experts": ("num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts"),
    "top_k": ("num_experts_per_tok", "experts_per_token"),
    "d_expert": ("moe_intermediate_size",),
    "shared_experts": ("n_shared_experts", "num_shared_experts"),
}


@dataclass(frozen=True)
class Switch:
    """A property that is ``on`` or "none": by a boolean ``key``, by ``default`` where the key is absent or None."""

    key: str | None
    default: bool
    on: str


@dataclass(frozen=True)
class Window:
    """Sliding-window attention: its width where the file is silent, and which layers are global."""

    width: int | None
    global_every: int = 0
    late: bool = False  # only with use_sliding_window, and only the layers from max_window_layers on


@dataclass(frozen=True)
class Routing:
    """Which layers are mixtures, and how the file describes the shared experts."""

    layers: Literal["all", "after first", "sparse step", "interleaved"] = "all"
    shared: Literal["none", "count", "gated width", "one"] = "none"
    router_bias: bool = False


@dataclass(frozen=True)
class Family:
    """What ``model_type`` says about an architecture."""

    name: str
    year: int
    tied: bool = False
    gated: bool = True
    norm: str = "rmsnorm"
    norms_per_layer: int = 2
    attention_bias: Switch = Switch(None, False, "none")
    mlp_bias: Switch = Switch(None, False, "mlp")
    qk_norm: Switch = Switch(None, False, "none")
    defaults: Mapping[str, int] = field(default_factory=dict)  # dimensions that an absent key stands for
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # where they differ from `KEYS`
    ff_ratio: int | None = None  # the feed-forward width in multiples of d_model where the file does not say
    learned_positions: int | None = None  # rows of the position table beyond sequence_length
    window: Window | None = None
    routing: Routing | None = None
    latent: bool = False


_BIAS = Switch("attention_bias", False, "all")
_ALL = Switch(None, True, "all")
_MLP = Switch(None, True, "mlp")
_HEAD = Switch(None, True, "head")
_EXPERT_WIDTH = {"d_expert": ("intermediate_size",)}
_LATE = Window(4096, late=True)
_DENSE_GPT = Family(
    "GPT-2", 2019, tied=True, gated=False, norm="layernorm", attention_bias=_ALL, mlp_bias=_MLP, ff_ratio=4
)
_GEMMA = Family("Gemma", 2024, tied=True, attention_bias=_BIAS, defaults={"head_dim": 256, "sequence_length": 8192})
_GEMMA3 = {"head_dim": 256, "heads": 8, "kv_heads": 4, "vocab": 262208, "sequence_length": 131072}
_LATENT = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
_DEEPSEEK = Family(
    "DeepSeek",
    2024,
    attention_bias=_BIAS,
    latent=True,
    defaults={**_LATENT, "first_k_dense_replace": 3, "shared_experts": 1, "sequence_length": 4096},
    routing=Routing("after first", "count", router_bias=True),
)
_QWEN2 = Family("Qwen2", 2024, attention_bias=Switch(None, True, "qkv"), window=_LATE)
_QWEN3 = Family("Qwen3", 2025, attention_bias=_BIAS, qk_norm=_HEAD, window=_LATE)

#: Every supported ``model_type``.
FAMILIES: dict[str, Family] = {
    "llama": Family("LLaMA", 2023, attention_bias=_BIAS, mlp_bias=Switch("mlp_bias", False, "mlp")),
    "llama4_text": Family(
        "LLaMA-4",
        2025,
        defaults={"head_dim": 128, "kv_heads": 8, "vocab": 202048, "sequence_length": 131072},
        keys={"d_ff": ("intermediate_size_mlp",), **_EXPERT_WIDTH},
        routing=Routing("interleaved", "one"),
    ),
    "mistral": Family("Mistral", 2023, window=Window(4096), defaults={"kv_heads": 8, "sequence_length": 131072}),
    "mixtral": Family(
        "Mixtral",
        2023,
        window=Window(None),
        defaults={"kv_heads": 8, "sequence_length": 131072},
        keys=_EXPERT_WIDTH,
        routing=Routing(),
    ),
    "qwen2": replace(_QWEN2, defaults={"kv_heads": 32, "sequence_length": 32768}),
    "qwen2_moe": replace(
        _QWEN2,
        attention_bias=Switch("qkv_bias", True, "qkv"),
        defaults={"kv_heads": 16, "sequence_length": 32768},
        routing=Routing("sparse step", "gated width"),
    ),
    "qwen3": replace(_QWEN3, defaults={"head_dim": 128, "kv_heads": 32, "sequence_length": 32768}),
    "qwen3_moe": replace(
        _QWEN3, defaults={"kv_heads": 4, "sequence_length": 32768}, routing=Routing("sparse step", "none")
    ),
    "deepseek_v2": replace(
        _DEEPSEEK, defaults={**_LATENT, "shared_experts": 2}, routing=Routing("after first", "count")
    ),
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": replace(_DEEPSEEK, name="Kimi", year=2025),
    "glm4_moe": Family(
        "GLM",
        2025,
        attention_bias=Switch("attention_bias", False, "qkv"),
        qk_norm=Switch("use_qk_norm", False, "head"),
        defaults={"kv_heads": 8, "sequence_length": 131072, "first_k_dense_replace": 1, "shared_experts": 1},
        routing=Routing("after first", "count", router_bias=True),
    ),
    "gemma": replace(_GEMMA, defaults={**_GEMMA.defaults, "kv_heads": 16}),
    "gemma2": replace(
        _GEMMA,
        name="Gemma2",
        norms_per_layer=4,
        window=Window(4096, global_every=2),
        defaults={**_GEMMA.defaults, "kv_heads": 4},
    ),
    "gemma3_text": replace(
        _GEMMA,
        name="Gemma3",
        year=2025,
        norms_per_layer=4,
        qk_norm=_HEAD,
        window=Window(4096, global_every=6),
        defaults=_GEMMA3,
    ),
    "gpt_oss": Family(
        "gpt-oss",
        2025,
        attention_bias=Switch("attention_bias", True, "all"),
        mlp_bias=_MLP,
        defaults={"head_dim": 64, "kv_heads": 8, "sequence_length": 131072},
        keys=_EXPERT_WIDTH,
        window=Window(128, global_every=2),
        routing=Routing(router_bias=True),
    ),
    "olmo2": Family("OLMo2", 2024, attention_bias=_BIAS, qk_norm=Switch(None, True, "full")),
    "gpt2": replace(_DENSE_GPT, learned_positions=0, defaults={"sequence_length": 1024}),
    "gpt_neox": replace(
        _DENSE_GPT,
        name="NeoX",
        year=2022,
        tied=False,
        ff_ratio=None,
        attention_bias=Switch("attention_bias", True, "all"),
    ),
    "opt": replace(
        _DENSE_GPT,
        name="OPT",
        year=2022,
        ff_ratio=None,
        learned_positions=2,
        attention_bias=Switch("enable_bias", True, "all"),
        mlp_bias=Switch("enable_bias", True, "mlp"),
    ),
    "bloom": replace(_DENSE_GPT, name="BLOOM", year=2022),
    "falcon": replace(
        _DENSE_GPT,
        name="Falcon",
        year=2023,
        attention_bias=Switch("bias", False, "all"),
        mlp_bias=Switch("bias", False, "mlp"),
    ),
}

#: Multimodal types whose language part lies in ``text_config``; the vision part is not planned.
NESTED = {"gemma3": "gemma3_text", "llama4": "llama4_text"}
