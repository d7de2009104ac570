"""Hugging Face configurations: every family against the catalogue or a known count, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from planner import catalog
from planner.errors import InputError
from planner.physics import parameters
from planner.schema.base import MAX_FILE_BYTES
from planner.schema.huggingface import from_config, read_config
from planner.schema.huggingface_families import FAMILIES, NESTED

if TYPE_CHECKING:
    from pathlib import Path

    from planner.schema.model import Model


def shape(kind: str, d: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    """A configuration in the usual spelling."""
    common = {"hidden_size": d, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {"model_type": kind, **common, **more}


LLAMA = shape(
    "llama",
    4096,
    32,
    32,
    num_key_value_heads=8,
    intermediate_size=14336,
    vocab_size=128256,
    max_position_embeddings=131072,
    tie_word_embeddings=False,
    rope_scaling={"factor": 8.0, "rope_type": "llama3"},
    torch_dtype="bfloat16",
)
LATENT = {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
DEEPSEEK_V3 = shape(
    "deepseek_v3",
    7168,
    61,
    128,
    num_key_value_heads=128,
    intermediate_size=18432,
    moe_intermediate_size=2048,
    n_routed_experts=256,
    n_shared_experts=1,
    num_experts_per_tok=8,
    first_k_dense_replace=3,
    moe_layer_freq=1,
    num_nextn_predict_layers=1,
    vocab_size=129280,
    max_position_embeddings=163840,
    quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]},
    **LATENT,
)
LLAMA4_TEXT = shape(
    "llama4_text",
    5120,
    48,
    40,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=8192,
    intermediate_size_mlp=16384,
    num_local_experts=128,
    num_experts_per_tok=1,
    interleave_moe_layer_step=2,
    vocab_size=202048,
    max_position_embeddings=1048576,
)
FALCON_40B = shape(
    "falcon", 8192, 60, 128, num_kv_heads=8, new_decoder_architecture=True, vocab_size=65024, parallel_attn=True
)

#: A configuration, and the catalogue's model with the same shape.
SAME = {
    "llama3.1-8b": LLAMA,
    "llama3.2-1b": shape(
        "llama",
        2048,
        16,
        32,
        num_key_value_heads=8,
        head_dim=64,
        intermediate_size=8192,
        vocab_size=128256,
        tie_word_embeddings=True,
    ),
    "llama4-maverick": {"model_type": "llama4", "text_config": LLAMA4_TEXT, "vision_config": {"hidden_size": 1408}},
    "llama4-scout": LLAMA4_TEXT | {"num_local_experts": 16, "interleave_moe_layer_step": 1},
    "mistral-7b": shape("mistral", 4096, 32, 32, intermediate_size=14336, vocab_size=32000, sliding_window=4096),
    "mixtral-8x7b": shape(
        "mixtral",
        4096,
        32,
        32,
        num_key_value_heads=8,
        intermediate_size=14336,
        vocab_size=32000,
        num_local_experts=8,
        num_experts_per_tok=2,
        sliding_window=None,
    ),
    "qwen2.5-0.5b": shape(
        "qwen2",
        896,
        24,
        14,
        num_key_value_heads=2,
        intermediate_size=4864,
        vocab_size=151936,
        tie_word_embeddings=True,
        use_sliding_window=False,
        sliding_window=32768,
        max_window_layers=24,
    ),
    "qwen2-57b-a14b": shape(
        "qwen2_moe",
        3584,
        28,
        28,
        num_key_value_heads=4,
        intermediate_size=18944,
        vocab_size=151936,
        moe_intermediate_size=2560,
        shared_expert_intermediate_size=20480,
        num_experts=64,
        num_experts_per_tok=8,
        decoder_sparse_step=1,
    ),
    "qwen3-8b": shape("qwen3", 4096, 36, 32, num_key_value_heads=8, intermediate_size=12288, vocab_size=151936),
    "qwen3-30b-a3b": shape(
        "qwen3_moe",
        2048,
        48,
        32,
        num_key_value_heads=4,
        head_dim=128,
        intermediate_size=6144,
        vocab_size=151936,
        moe_intermediate_size=768,
        num_experts=128,
        num_experts_per_tok=8,
        mlp_only_layers=[],
        decoder_sparse_step=1,
    ),
    "deepseek-v2": shape(
        "deepseek_v2",
        5120,
        60,
        128,
        intermediate_size=12288,
        moe_intermediate_size=1536,
        n_routed_experts=160,
        n_shared_experts=2,
        num_experts_per_tok=6,
        first_k_dense_replace=1,
        vocab_size=102400,
        **LATENT,
    ),
    "deepseek-v3": DEEPSEEK_V3,
    "kimi-k2": DEEPSEEK_V3
    | {
        "model_type": "kimi_k2",
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "n_routed_experts": 384,
        "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 0,
        "vocab_size": 163840,
    },
    "glm-4.5-air": shape(
        "glm4_moe",
        4096,
        46,
        96,
        num_key_value_heads=8,
        head_dim=128,
        attention_bias=True,
        use_qk_norm=False,
        intermediate_size=10944,
        moe_intermediate_size=1408,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
        first_k_dense_replace=1,
        num_nextn_predict_layers=1,
        vocab_size=151552,
    ),
    "gemma2-9b": shape(
        "gemma2",
        3584,
        42,
        16,
        num_key_value_heads=8,
        head_dim=256,
        intermediate_size=14336,
        vocab_size=256000,
        sliding_window=4096,
    ),
    "gemma3-1b": shape(
        "gemma3_text",
        1152,
        26,
        4,
        num_key_value_heads=1,
        head_dim=256,
        intermediate_size=6912,
        vocab_size=262144,
        sliding_window=512,
        sliding_window_pattern=6,
    ),
    "gpt-oss-20b": shape(
        "gpt_oss",
        2880,
        24,
        64,
        num_key_value_heads=8,
        head_dim=64,
        intermediate_size=2880,
        vocab_size=201088,
        num_local_experts=32,
        num_experts_per_tok=4,
        experts_per_token=4,
        sliding_window=128,
        layer_types=["sliding_attention", "full_attention"] * 12,
    ),
    "gpt2-xl": {
        "model_type": "gpt2",
        "n_embd": 1600,
        "n_layer": 48,
        "n_head": 25,
        "n_inner": None,
        "n_positions": 1024,
        "n_ctx": 1024,
        "vocab_size": 50257,
    },
    "gpt-neox-20b": shape("gpt_neox", 6144, 44, 64, intermediate_size=24576, vocab_size=50432),
    "opt-1.3b": shape("opt", 2048, 24, 32, ffn_dim=8192, vocab_size=50272, word_embed_proj_dim=2048),
    "opt-350m": shape(
        "opt", 1024, 24, 16, ffn_dim=4096, vocab_size=50272, word_embed_proj_dim=512, do_layer_norm_before=False
    ),
    "bloom-7b1": {
        "model_type": "bloom",
        "n_embed": 4096,
        "n_layer": 30,
        "num_attention_heads": 32,
        "vocab_size": 250880,
    },
    "falcon-7b": shape("falcon", 4544, 32, 71, multi_query=True, vocab_size=65024),
    "falcon-40b": FALCON_40B,
    "olmo2-32b": shape("olmo2", 5120, 64, 40, num_key_value_heads=8, intermediate_size=27648, vocab_size=100352),
}

#: What a configuration does not say, or says otherwise than the catalogue.
APART = {"name", "family", "year", "source", "sequence_length", "published"}


def problems(config: Any) -> list[str]:
    """What is wrong with a configuration."""
    with pytest.raises(InputError) as caught:
        from_config(config, "there/config.json")
    assert all(line.startswith("there/config.json: ") for line in caught.value.problems)
    return caught.value.problems


def read(config: dict[str, Any], **changes: Any) -> Model:
    """The model of a changed configuration."""
    return from_config(config | changes, "config.json")


@pytest.mark.parametrize("name", sorted(SAME))
def test_family_reads_as_the_catalogue_has_it(name: str) -> None:
    ours = catalog.load_model(name)
    theirs = from_config(SAME[name], "config.json")
    assert theirs.model_dump(exclude=APART) == ours.model_dump(exclude=APART)
    assert parameters.total(theirs) == parameters.total(ours)


def test_every_family_is_tested() -> None:
    tested = {config["model_type"] for config in SAME.values()}
    assert set(FAMILIES) | set(NESTED) == tested | {"gemma", "gemma3"}


def test_gemma_by_its_published_count() -> None:
    config = shape("gemma", 2048, 18, 8, num_key_value_heads=1, intermediate_size=16384, vocab_size=256000)
    assert parameters.total(from_config(config, "gemma-2b.json")) == 2_506_172_416


def test_gemma3_inside_a_multimodal_file_with_most_keys_absent() -> None:
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    model = from_config({"model_type": "gemma3", "text_config": text}, "config.json")
    catalogue = catalog.load_model("gemma3-4b")
    assert model.model_dump(exclude=APART | {"vocab"}) == catalogue.model_dump(exclude=APART | {"vocab"})
    assert parameters.total(model) - parameters.total(catalogue) == (262208 - 262144) * 2560


def test_small_llama_by_hand() -> None:
    config = shape("llama", 96, 2, 4, num_key_value_heads=2, intermediate_size=192, vocab_size=112)
    model = from_config(config, "config.json")
    assert (model.head_dim, model.sequence_length, model.tied_embeddings) == (24, 2048, False)
    layer = 2 * 96 * 96 + 2 * 96 * 48 + 3 * 96 * 192 + 2 * 96
    assert parameters.total(model) == 2 * layer + 2 * 112 * 96 + 96


def test_absent_keys_mean_what_transformers_assumes() -> None:
    assert read(LLAMA, num_key_value_heads=None).kv_heads == 32
    assert read(LLAMA, attention_bias=True, mlp_bias=True).attention_bias == "all"
    mistral = {key: value for key, value in SAME["mistral-7b"].items() if key != "sliding_window"}
    assert read(mistral).kv_heads == 8
    window = read(mistral).sliding_window
    assert window is not None
    assert window.window == 4096
    assert read(mistral, sliding_window=None).sliding_window is None
    assert read(SAME["qwen3-8b"]).head_dim == 128
    assert read(FALCON_40B, new_decoder_architecture=False, multi_query=False).kv_heads == 128
    assert read(FALCON_40B, new_decoder_architecture=False).norms_per_layer == 1
    assert read(FALCON_40B, num_ln_in_parallel_attn=1).norms_per_layer == 1
    assert read(FALCON_40B, bias=True).mlp_bias


def test_deepseek_spellings() -> None:
    renamed = {key: value for key, value in DEEPSEEK_V3.items() if key not in ("n_routed_experts", "n_shared_experts")}
    assert read(renamed, num_routed_experts=256, num_shared_experts=1) == read(DEEPSEEK_V3)
    for none in (None, 0):
        model = read(DEEPSEEK_V3, q_lora_rank=none)
        assert model.mla is not None
        assert model.mla.q_lora_rank == 0
    dense = read(DEEPSEEK_V3, n_routed_experts=None)
    assert dense.moe is None
    assert dense.d_ff == 18432


@pytest.mark.parametrize(
    ("dense", "step", "expected"),
    [([], 1, (0, 1)), ([0, 1], 1, (2, 1)), ([], 2, (0, 2)), ([0, 1], 2, (3, 2)), ([0, 1, 2, 3, 4], 1, (5, 1))],
)
def test_dense_layers_of_qwen(dense: list[int], step: int, expected: tuple[int, int]) -> None:
    config = SAME["qwen3-30b-a3b"] | {"num_hidden_layers": 8, "mlp_only_layers": dense, "decoder_sparse_step": step}
    model = from_config(config, "config.json")
    assert model.moe is not None
    wanted = [layer not in dense and (layer + 1) % step == 0 for layer in range(8)]
    assert [parameters.is_mixture(model, layer) for layer in range(8)] == wanted
    assert model.moe.layer_step == expected[1]


def test_layers_that_cannot_be_expressed() -> None:
    config = SAME["qwen3-30b-a3b"] | {"mlp_only_layers": [5]}
    assert any("every n-th layer" in line for line in problems(config))
    late = SAME["qwen2.5-0.5b"] | {"use_sliding_window": True, "max_window_layers": 12}
    assert any("sliding_window" in line for line in problems(late))
    kinds = SAME["gpt-oss-20b"] | {"layer_types": ["chunked_attention"] * 3}
    assert len(problems(kinds)) == 2


def test_name_is_the_folder_the_file_or_the_origin(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    (folder / "other.json").write_text(json.dumps(LLAMA | {"_name_or_path": "meta-llama/Llama-3.1-8B"}))
    (folder / "plain.json").write_text(json.dumps(LLAMA))
    assert read_config(folder / "config.json").name == "my-model"
    assert read_config(folder / "other.json").name == "Llama-3.1-8B"
    assert read_config(folder / "plain.json").name == "plain"
    assert catalog.load_model(str(folder / "plain.json")).source == str(folder / "plain.json")


def test_all_problems_at_once() -> None:
    config = LLAMA | {"hidden_size": "4096", "vocab_size": True, "num_hidden_layers": 0, "tie_word_embeddings": "no"}
    del config["intermediate_size"]
    text = "\n".join(problems(config))
    for key in ("hidden_size", "vocab_size", "num_hidden_layers", "tie_word_embeddings", "intermediate_size"):
        assert key in text
    assert len(problems(config)) == 5


@pytest.mark.parametrize(
    ("config", "part"),
    [
        ([], "JSON object"),
        (None, "JSON object"),
        ({}, "model_type: is missing"),
        ({"model_type": 3}, "must be a text"),
        ({"model_type": "bert", "hidden_size": 768}, "'bert' is not supported; supported are bloom, "),
        ({"model_type": "clip", "text_config": {}}, "not supported"),
        ({"model_type": "nemotron_h", "vocab_size": 100}, "not supported"),
        (LLAMA | {"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"model_type": "gemma3"}, "text_config"),
        ({"model_type": "llama4", "text_config": []}, "text_config"),
        (LLAMA | {"hidden_size": 4096.5}, "whole number"),
        (LLAMA | {"hidden_size": 10**30}, "whole number"),
        (LLAMA | {"hidden_size": -4096}, "whole number"),
        (LLAMA | {"num_hidden_layers": 10**8}, "more than"),
        (LLAMA | {"num_attention_heads": 33, "num_key_value_heads": 33}, "not a multiple"),
        (LLAMA | {"num_key_value_heads": 5}, "not a multiple"),
        (LLAMA | {"n_embd": 8192}, "disagree"),
        (DEEPSEEK_V3 | {"num_experts_per_tok": 300}, "exceeds"),
        (DEEPSEEK_V3 | {"moe_layer_freq": 2}, "every n-th layer"),
        (DEEPSEEK_V3 | {"moe_intermediate_size": [64, 32]}, "whole number"),
        (SAME["qwen3-30b-a3b"] | {"mlp_only_layers": "none"}, "must be a list"),
        (SAME["gpt-oss-20b"] | {"layer_types": ["full_attention"]}, "1 entries for 24 layers"),
    ],
)
def test_refused(config: Any, part: str) -> None:
    assert any(part in line for line in problems(config))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe\x00\x80\x81", "not"),
        (b"\x80\x02}q\x00.", "not a text file"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b" " * (MAX_FILE_BYTES + 1), "too large"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=part) as caught:
        read_config(path)
    assert str(path) in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.json"):
        with pytest.raises(InputError):
            read_config(path)
