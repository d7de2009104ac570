"""Parameter counts: by hand for small shapes, and against published figures for the whole catalogue."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from planner import catalog
from planner.physics import parameters
from planner.schema.model import Model

#: Published counts that are exact, as the weights on Hugging Face or the makers' own tables give them.
EXACT = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "gpt-j-6b": 6_050_882_784,
    "gpt-neox-20b": 20_554_567_680,
    "opt-350m": 331_196_416,
    "opt-1.3b": 1_315_758_080,
    "bloom-176b": 176_247_271_424,
    "mpt-7b-llm-foundry": 6_658_859_008,
    "llama-65b": 65_285_660_672,
    "llama2-7b": 6_738_415_616,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3.1-405b": 405_853_388_800,
    "llama3.2-1b": 1_235_814_400,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_630_071_296,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v3": 671_026_419_200,
    "kimi-k2": 1_026_408_232_448,
    "qwen2-57b-a14b": 57_408_658_944,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-8b": 8_190_735_360,
    "qwen3-235b-a22b": 235_093_634_560,
    "llama4-maverick": 400_711_848_960,
    "glm-4.5": 352_797_829_024,
    "gpt-oss-120b": 116_829_156_672,
    "olmo2-32b": 32_234_279_936,
    "gemma2-27b": 27_227_128_320,
    "gemma3-12b": 11_765_788_416,
}

CATALOGUE = catalog.names("model")


def small(**changes: Any) -> Model:
    """A mixture-of-experts model with latent attention, small enough to count by hand."""
    shape: dict[str, Any] = {
        "schema": 1,
        "name": "small",
        "family": "test",
        "year": 2024,
        "source": "test",
        "layers": 5,
        "d_model": 10,
        "heads": 2,
        "kv_heads": 2,
        "head_dim": 5,
        "d_ff": 7,
        "gated_mlp": True,
        "vocab": 100,
        "tied_embeddings": False,
        "sequence_length": 16,
        "moe": {
            "experts": 4,
            "top_k": 2,
            "d_expert": 3,
            "shared_experts": 1,
            "d_shared": 6,
            "first_dense_layers": 1,
            "layer_step": 2,
        },
        "mla": {"q_lora_rank": 4, "kv_lora_rank": 6, "qk_nope_dim": 3, "qk_rope_dim": 2, "v_head_dim": 5},
    }
    return Model.model_validate(shape | changes)


def test_gpt3_by_hand() -> None:
    model = catalog.load_model("gpt3-175b")
    d = 12288
    assert parameters.attention(model) == 4 * d * d + 4 * d
    assert parameters.dense_mlp(model) == 8 * d * d + 5 * d
    assert parameters.norms(model) == 4 * d
    assert parameters.embedding(model) == (50257 + 2048) * d
    assert parameters.head(model) == parameters.mtp(model) == parameters.routed_expert(model) == 0
    assert parameters.total(model) == 96 * (12 * d * d + 13 * d) + (50257 + 2048) * d + 2 * d == 174_604_259_328
    assert parameters.active(model) == parameters.total(model)


def test_small_mixture_with_latent_attention_by_hand() -> None:
    model = small()
    queries = 10 * 4 + 4 + 4 * 2 * (3 + 2)
    keys_values = 10 * (6 + 2) + 6 + 6 * 2 * (3 + 5)
    assert parameters.attention(model) == queries + keys_values + 2 * 5 * 10 == 366
    assert parameters.dense_mlp(model) == 3 * 10 * 7
    assert parameters.routed_expert(model) == 3 * 10 * 3
    assert parameters.shared_experts(model) == 3 * 10 * 6
    assert parameters.router(model) == 10 * 4
    assert parameters.norms(model) == 2 * 10
    assert (parameters.moe_layers(model), parameters.dense_layers(model)) == (2, 3)  # layers 1 and 3 of 0 ... 4
    mixture = 366 + 20 + 4 * 90 + 180 + 40
    dense = 366 + 20 + 210
    assert parameters.layer(model, mixture=True) == mixture
    assert parameters.layer(model, mixture=False) == dense
    assert parameters.total(model) == 2 * 100 * 10 + 2 * mixture + 3 * dense + 10
    assert parameters.active(model) == parameters.total(model) - 2 * 2 * 90


def test_multi_token_prediction_repeats_the_last_layer() -> None:
    model = small(mtp_layers=2, layers=4)
    assert parameters.mtp(model) == 2 * (2 * 10 * 10 + 3 * 10 + parameters.layer(model, mixture=True))
    assert parameters.total(model) == parameters.total(small(layers=4))


def test_small_switches_by_hand() -> None:
    base = small(mla=None)
    plain = parameters.attention(base)
    assert plain == 4 * 10 * 10
    assert parameters.attention(small(mla=None, kv_heads=1)) == 2 * 10 * 10 + 2 * 10 * 5
    assert parameters.attention(small(mla=None, attention_bias="qkv")) == plain + 3 * 10
    assert parameters.attention(small(mla=None, attention_bias="all")) == plain + 4 * 10
    assert parameters.attention(small(mla=None, qk_norm="head")) == plain + 2 * 5
    assert parameters.attention(small(mla=None, qk_norm="full")) == plain + 2 * 10
    assert parameters.attention(small(attention_bias="all")) == 366 + 4 + 8 + 10
    assert parameters.dense_mlp(small(mlp_bias=True)) == 210 + 2 * 7 + 10
    assert parameters.dense_mlp(small(gated_mlp=False)) == 2 * 10 * 7
    assert parameters.norms(small(norm="layernorm", norms_per_layer=1)) == 2 * 10
    assert parameters.head(small(tied_embeddings=True)) == 0
    moe = {"experts": 4, "top_k": 1, "d_expert": 3, "shared_experts": 1, "d_shared": 6}
    assert parameters.shared_experts(small(moe=moe | {"shared_gate": True})) == 180 + 10
    assert parameters.router(small(moe=moe | {"router_bias": True})) == 40 + 4
    more = parameters.total(small(extra_parameters=7, extra_parameters_per_layer=3)) - parameters.total(small())
    assert more == 7 + 5 * 3


def test_queries_without_low_rank() -> None:
    mla = {"q_lora_rank": 0, "kv_lora_rank": 6, "qk_nope_dim": 3, "qk_rope_dim": 2, "v_head_dim": 5}
    assert parameters.attention(small(mla=mla)) == 10 * 2 * 5 + (80 + 6 + 96) + 100


def test_extra_parameters_cannot_exceed_the_embedding() -> None:
    with pytest.raises(ValidationError, match="extra_parameters"):
        small(extra_parameters=-1001)


@pytest.mark.parametrize("step", [1, 2, 3, 5])
@pytest.mark.parametrize("first", [0, 1, 4, 5])
def test_mixture_layers_agree_with_their_indices(first: int, step: int) -> None:
    moe = {"experts": 4, "top_k": 2, "d_expert": 3, "first_dense_layers": first, "layer_step": step}
    model = small(moe=moe)
    by_index = [parameters.is_mixture(model, layer) for layer in range(model.layers)]
    assert parameters.moe_layers(model) == sum(by_index)
    assert parameters.dense_layers(model) == model.layers - sum(by_index)


def test_catalogue_is_large() -> None:
    assert len(CATALOGUE) >= 40


@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue_matches_what_is_published(name: str) -> None:
    model = catalog.load_model(name)
    assert model.name == name
    assert model.source
    assert model.published.parameters is not None
    assert model.published.source
    counted = [(parameters.total(model), model.published.parameters)]
    if model.published.active_parameters:
        counted.append((parameters.active(model), model.published.active_parameters))
    close = all(abs(count / published - 1) <= 1e-3 for count, published in counted)
    assert close or model.published.note


@pytest.mark.parametrize("name", sorted(EXACT))
def test_exact_totals(name: str) -> None:
    model = catalog.load_model(name)
    assert parameters.total(model) == EXACT[name] == model.published.parameters


@pytest.mark.parametrize(
    ("name", "stored"),
    [("glm-4.5", 358_337_791_296), ("glm-4.5-air", 110_468_824_832), ("deepseek-v3", 684_489_845_504)],
)
def test_prediction_module_explains_the_larger_count(name: str, stored: int) -> None:
    """The weights hold the module with its own copies of embedding and head."""
    model = catalog.load_model(name)
    module = parameters.mtp(model) + parameters.embedding(model) + parameters.head(model)
    assert parameters.total(model) + module == stored


def test_active_counts() -> None:
    assert parameters.active(catalog.load_model("mixtral-8x7b")) == 12_879_925_248
    assert parameters.active(catalog.load_model("deepseek-v3")) == 37_552_297_472
    gpt_oss = catalog.load_model("gpt-oss-120b")
    assert parameters.active(gpt_oss) - parameters.embedding(gpt_oss) == 5_132_849_472  # published: 5.13B
