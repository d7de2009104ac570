"""Reading a Hugging Face ``config.json`` as a `Model`.

`planner.schema.huggingface_families` describes the supported model types; here is how a file is read against it. All
problems of a file are reported at once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import InputError
from planner.schema.base import read_bytes, validate
from planner.schema.huggingface_families import FAMILIES, KEYS, NESTED
from planner.schema.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.schema.huggingface_families import Family, Routing, Switch, Window

LARGEST = 10**9  # no dimension of a real model comes near
MOST_LAYERS = 10**4


class _Config:
    """A ``config.json`` being read. Problems are collected, so that all of them can be reported at once."""

    def __init__(self, config: dict[str, Any], family: Family, origin: str) -> None:
        self.config, self.family, self.origin = config, family, origin
        self.problems: list[str] = []

    def problem(self, key: str, text: str) -> None:
        """Note a problem with a key."""
        self.problems.append(f"{self.origin}: {key}: {text}")

    def keys(self, name: str) -> tuple[str, ...]:
        """The spellings of one of our dimensions."""
        return self.family.keys.get(name) or KEYS.get(name, (name,))

    def integer(self, name: str, absent: int | None = None, null: int | None = None, least: int = 1) -> int:
        """The whole number under any spelling of ``name``; ``absent`` or ``null`` where there is none (or a problem).

        A problem reads as 1: reading goes on to find the others.
        """
        keys = self.keys(name)
        given = {key: self.config[key] for key in keys if key in self.config}
        values = {key: value for key, value in given.items() if value is not None}
        if not values:
            default = null if given and null is not None else self.family.defaults.get(name, absent)
            if default is None:
                text = "is null" if given else "is missing"
                self.problem(" or ".join(given or keys[:2]), f"{text}; a whole number is needed")
                return 1
            return default
        for key, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
                self.problem(key, f"must be a whole number from {least} to {LARGEST}, not {_short(value)}")
                return 1
        if len(set(values.values())) > 1:
            self.problem(" and ".join(values), f"disagree: {', '.join(map(str, values.values()))}")
        number: int = next(iter(values.values()))
        return number

    def boolean(self, key: str | None, default: bool) -> bool:
        """The boolean under ``key``, or ``default``."""
        value = self.config.get(key) if key else None
        if value is None:
            return default
        if not isinstance(value, bool):
            self.problem(str(key), f"must be true or false, not {_short(value)}")
            return default
        return value

    def switch(self, switch: Switch) -> str:
        """The state of a `Switch`."""
        return switch.on if self.boolean(switch.key, switch.default) else "none"

    def sequence(self, key: str, kind: type) -> list[Any] | None:
        """The list of ``kind`` under ``key``, or None."""
        value = self.config.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or any(type(item) is not kind for item in value):
            self.problem(key, f"must be a list of {kind.__name__}, not {_short(value)}")
            return None
        return value

    def model(self) -> dict[str, Any]:
        """The document of a `Model`, but for its name and source."""
        family = self.family
        layers = self.integer("layers")
        if layers > MOST_LAYERS:
            self.problem(" or ".join(self.keys("layers")[:2]), f"{layers} layers are more than {MOST_LAYERS}")
            layers = 1
        d, heads, vocab = self.integer("d_model"), self.integer("heads"), self.integer("vocab")
        length = self.integer("sequence_length", absent=2048)
        moe = self._experts(layers, family.routing) if family.routing else None
        every_layer_mixed = moe is not None and not moe["first_dense_layers"] and moe["layer_step"] == 1
        wide = family.ff_ratio and family.ff_ratio * d
        document: dict[str, Any] = {
            "schema": 1,
            "family": family.name,
            "year": family.year,
            "layers": layers,
            "d_model": d,
            "heads": heads,
            "d_ff": 0 if every_layer_mixed else self.integer("d_ff", absent=wide, null=wide),
            "gated_mlp": family.gated,
            "vocab": vocab,
            "tied_embeddings": self.boolean("tie_word_embeddings", family.tied),
            "sequence_length": length,
            "norm": family.norm,
            "norms_per_layer": family.norms_per_layer,
            "attention_bias": self.switch(family.attention_bias),
            "mlp_bias": self.switch(family.mlp_bias) != "none",
            "qk_norm": self.switch(family.qk_norm),
            "learned_positions": 0 if family.learned_positions is None else length + family.learned_positions,
            "mtp_layers": self.integer("num_nextn_predict_layers", absent=0, null=0, least=0),
            "moe": moe,
            "sliding_window": self._window(layers, family.window) if family.window else None,
        }
        if family.latent:
            document |= self._latent(heads)
        else:
            document["kv_heads"] = self.integer("kv_heads", absent=heads, null=heads)
            document["head_dim"] = self._head_dim(d, heads)
        return document

    def _head_dim(self, d: int, heads: int) -> int:
        size = self.integer("head_dim", absent=0, null=0)
        if size:
            return size
        if d > 1 and d % heads:  # a width of 1 stands for one that could not be read
            self.problem("head_dim", f"is missing, and the width {d} is not a multiple of the {heads} heads")
        return max(1, d // heads)

    def _latent(self, heads: int) -> dict[str, Any]:
        nope, rope = self.integer("qk_nope_head_dim"), self.integer("qk_rope_head_dim")
        mla = {
            "q_lora_rank": self.integer("q_lora_rank", null=0, least=0),
            "kv_lora_rank": self.integer("kv_lora_rank"),
            "qk_nope_dim": nope,
            "qk_rope_dim": rope,
            "v_head_dim": self.integer("v_head_dim"),
        }
        return {"kv_heads": heads, "head_dim": nope + rope, "mla": mla}

    def _experts(self, layers: int, routing: Routing) -> dict[str, Any] | None:
        experts = self.integer("experts", null=0, least=0)
        mixtures = self._mixtures(layers, routing) if experts else [False]
        if not any(mixtures):
            return None
        steps = _steps(mixtures)
        if steps is None:
            self.problem("mixture layers", "only leading dense layers and every n-th layer can be planned")
            return None
        d_expert = self.integer("d_expert")
        count, width = 0, 0
        if routing.shared == "count":
            count = self.integer("shared_experts", absent=0, null=0, least=0)
            width = count * d_expert
        elif routing.shared == "gated width":
            width = self.integer("shared_expert_intermediate_size", least=0)
            count = min(1, width)
        elif routing.shared == "one":
            count, width = 1, d_expert
        return {
            "experts": experts,
            "top_k": self.integer("top_k"),
            "d_expert": d_expert,
            "shared_experts": count,
            "d_shared": width,
            "shared_gate": routing.shared == "gated width" and width > 0,
            "first_dense_layers": steps[0],
            "layer_step": steps[1],
            "router_bias": routing.router_bias,
        }

    def _mixtures(self, layers: int, routing: Routing) -> list[bool]:
        """Which layers are mixtures."""
        if routing.layers == "after first":
            first = self.integer("first_k_dense_replace", absent=0, null=0, least=0)
            every = self.integer("moe_layer_freq", absent=1, null=1)
            return [layer >= first and layer % every == 0 for layer in range(layers)]
        if routing.layers == "sparse step":
            step = self.integer("decoder_sparse_step", absent=1, null=1)
            dense = set(self.sequence("mlp_only_layers", int) or ())
            return [layer not in dense and (layer + 1) % step == 0 for layer in range(layers)]
        if routing.layers == "interleaved":
            step = self.integer("interleave_moe_layer_step", absent=1, null=1)
            mixed = self.sequence("moe_layers", int)
            chosen = set(range(step - 1, layers, step) if mixed is None else mixed)
            return [layer in chosen for layer in range(layers)]
        return [True] * layers

    def _window(self, layers: int, window: Window) -> dict[str, int] | None:
        width = self.integer("sliding_window", absent=window.width or 0, null=0, least=0)
        every = self.integer("global_every", absent=window.global_every, null=window.global_every)
        types = self.sequence("layer_types", str)
        if window.late and not self.boolean("use_sliding_window", False):
            return None
        if types is not None:
            if len(types) != layers:
                self.problem("layer_types", f"has {len(types)} entries for {layers} layers")
            if unknown := sorted(set(types) - {"sliding_attention", "full_attention"}):
                self.problem("layer_types", f"can be sliding_attention or full_attention, not {_short(unknown[0])}")
            local = [kind == "sliding_attention" for kind in types]
        elif window.late:
            start = self.integer("max_window_layers", absent=28, null=28, least=0)
            local = [layer >= start for layer in range(layers)]
        else:
            local = [not every or (layer + 1) % every != 0 for layer in range(layers)]
        if not width or not any(local):
            return None
        first_global = local.index(False) + 1 if False in local else 0
        if any(kind != (not first_global or (layer + 1) % first_global != 0) for layer, kind in enumerate(local)):
            self.problem("sliding_window", "can be planned in every layer or in all but every n-th, not as given here")
        return {"window": width, "global_every": first_global}


def _steps(mixtures: Sequence[bool]) -> tuple[int, int] | None:
    """The leading dense layers and the step that give just these mixtures, or None when there are none such."""
    chosen = [layer for layer, mixed in enumerate(mixtures) if mixed]
    step = chosen[1] - chosen[0] if len(chosen) > 1 else chosen[0] + 1
    for first in (0, chosen[0]):
        if all(mixed == (layer >= first and (layer + 1) % step == 0) for layer, mixed in enumerate(mixtures)):
            return first, step
    return (chosen[0], 1) if all(mixtures[chosen[0] :]) else None


def _falcon(config: _Config, document: dict[str, Any]) -> None:
    """Falcon: one key-value head unless the file says otherwise; a norm for each branch in the newer decoders."""
    newer = config.boolean("new_decoder_architecture", False)
    if not newer:
        document["kv_heads"] = 1 if config.boolean("multi_query", True) else document["heads"]
    branches = config.integer("num_ln_in_parallel_attn", absent=2 if newer else 1, null=2 if newer else 1)
    document["norms_per_layer"] = branches if config.boolean("parallel_attn", True) else 2


def _opt(config: _Config, document: dict[str, Any]) -> None:
    """OPT: a token embedding of its own width with two projections (350m), and no final norm after post-norm."""
    d = document["d_model"]
    narrow = config.integer("word_embed_proj_dim", absent=d, null=d)
    if narrow != d:
        document["extra_parameters"] = 2 * narrow * d - (d - narrow) * document["vocab"]
    removed = config.boolean("_remove_final_layer_norm", False)
    if removed or not config.boolean("do_layer_norm_before", True):
        document["extra_parameters"] = document.get("extra_parameters", 0) - 2 * d


def _bloom(_: _Config, document: dict[str, Any]) -> None:
    """BLOOM: a LayerNorm behind the token embedding."""
    document["extra_parameters"] = 2 * document["d_model"]


def _gpt_oss(_: _Config, document: dict[str, Any]) -> None:
    """gpt-oss: an attention sink for each head."""
    document["extra_parameters_per_layer"] = document["heads"]


#: What a model type needs beyond its description.
ADJUSTMENTS: dict[str, Callable[[_Config, dict[str, Any]], None]] = {
    "falcon": _falcon,
    "opt": _opt,
    "bloom": _bloom,
    "gpt_oss": _gpt_oss,
}


def read_config(path: Path) -> Model:
    """The architecture in a ``config.json``. Raises `InputError` with everything that is wrong with the file."""
    raw = read_bytes(path)
    try:
        config = json.loads(raw)
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not a text file (a Hugging Face config.json is expected)") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not valid JSON: {error}") from None
    return from_config(config, str(path))


def from_config(config: Any, origin: str) -> Model:
    """The architecture that the content of a ``config.json`` describes; ``origin`` is its file, for messages."""
    kind, text = _language_part(config, origin)
    reader = _Config(text, FAMILIES[kind], origin)
    document = reader.model()
    if kind in ADJUSTMENTS:
        ADJUSTMENTS[kind](reader, document)
    if reader.problems:
        raise InputError(reader.problems)
    return validate(Model, {**document, "name": _name(config, origin), "source": origin}, origin)


def _language_part(config: Any, origin: str) -> tuple[str, dict[str, Any]]:
    """The ``model_type`` of the language model and the object with its dimensions."""
    if not isinstance(config, dict):
        raise InputError(f"{origin}: must be a JSON object, not {_short(config)}")
    supported = ", ".join(sorted([*FAMILIES, *NESTED]))
    kind = config.get("model_type")
    if not isinstance(kind, str):
        what = "is missing" if kind is None else f"must be a text, not {_short(kind)}"
        raise InputError(f"{origin}: model_type: {what}; supported are {supported}")
    if config.get("is_encoder_decoder") is True:
        raise InputError(f"{origin}: is_encoder_decoder: only decoders can be planned; supported are {supported}")
    if kind not in (*FAMILIES, *NESTED):
        raise InputError(f"{origin}: model_type: {kind!r} is not supported; supported are {supported}")
    if kind not in NESTED:
        return kind, config
    text = config.get("text_config")
    if not isinstance(text, dict):
        raise InputError(f"{origin}: text_config: must be an object with the language model, not {_short(text)}")
    tied = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
    return NESTED[kind], {**tied, **text}


def _name(config: dict[str, Any], origin: str) -> str:
    """What to call the model: the last part of ``_name_or_path``, else the file's or its folder's name."""
    given = config.get("_name_or_path")
    last = Path(given).name if isinstance(given, str) else ""
    path = Path(origin)
    return last or (path.parent.name if path.stem == "config" else "") or path.stem or "model"


def _short(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
