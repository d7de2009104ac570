"""The free texts of a table of runs: sharding, recomputation, precision, networks and accelerators' names."""

import numpy as np
import pytest

from planner import catalog
from planner.physics.setting import Recompute
from planner.rows.frameworks import profile, read_framework
from planner.rows.plans import EVERY, NODE, read_attention, read_precision, read_recompute, read_zero
from planner.rows.systems import inner_link, read_accelerator, read_fabric


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zero1", (1, EVERY)), ("zero1 (distributed optimizer, framework default)", (1, EVERY)), ("none", (0, EVERY)),
        ("zero0", (0, EVERY)), ("fsdp (zero3)", (3, EVERY)), ("fsdp (zero2)", (2, EVERY)), ("fsdp", (3, EVERY)),
        ("fsdp2 (zero3)", (3, EVERY)), ("hsdp (zero3 within node, replicate across)", (3, NODE)), ("2", (2, EVERY)),
        ("zero1 in groups of 8", (1, 8)), ("zero1: zero1 in groups of 4", (1, 4)), ("ZeRO-3", (3, EVERY)),
        ("zero1: all dp (zero1=-1)", (1, EVERY)), ("zero (stage not stated in table; ZeRO branch)", (1, EVERY)),
        ("distributed optimizer", (1, EVERY)), ("3.0", (3, EVERY)), ("", None),
    ],
)  # fmt: skip
def test_zero_texts(text, expected):
    assert read_zero(text) == expected


def test_zero_of_a_framework():
    names = ("Megatron-LM", "NeMo", "torchtitan (FSDP2)", "my own", "")
    assert [profile(read_framework(name)).zero for name in names] == [1, 1, 3, 0, 0]


def test_frameworks_of_texts():
    expected = {
        "Megatron-Bridge/NeMo 26.02.01": "megatron-bridge", "Megatron-Bridge/NeMo 26.06": "megatron-bridge-26.06",
        "NeMo/Megatron-Core 24.07": "nemo-24", "Megatron-LM PTD-P": "megatron-lm-2021", "Megatron-LM CI": "megatron-core",
        "Megatron-LM + DeepSpeed ZeRO-3": "deepspeed-zero3", "Megatron-DeepSpeed": "megatron-deepspeed",
        "llm-foundry/Composer FSDP (PyTorch)": "llm-foundry", "nanotron v0.5": "nanotron", "": "generic",
        "torchtitan": "torchtitan", "something new": "generic",
    }  # fmt: skip
    assert {text: read_framework(text) for text in expected} == expected


def test_recompute_precision_and_attention_texts():
    assert read_recompute("selective (core_attn, layernorm)") is Recompute.SELECTIVE
    assert [read_recompute(text) for text in ("", "none", "full")] == [Recompute.NONE, Recompute.NONE, Recompute.FULL]
    names = ("bf16", "amp_bf16", "bfloat16", "fp16", "float16", "fp8", "mxfp8", "nvfp4", "float8", "")
    assert [read_precision(name).name for name in names] == ["BF16"] * 3 + ["FP16"] * 2 + [
        "FP8",
        "FP8",
        "FP4",
        "FP8",
        "BF16",
    ]
    texts = ("unfused (fused softmax)", "flash", "", "TE fused")
    assert [read_attention(text) for text in texts] == ["unfused", "fused", None, "fused"]


@pytest.mark.parametrize(
    ("text", "domain", "per_node", "per_gpu"),
    [
        ("NVLink + 3.2Tb/s EFA per node (AWS p5, assumed)", None, 400, None),
        ("NVLink (single node)", None, None, None),
        ("NVL72 NVLink5 + IB/RoCE", 72, None, None),
        ("NVLink + 800Gb/s per node (from validation config)", None, 100, None),
        ("NVLink4 8-GPU + 8x400Gb IB", None, 400, None),
        ("NVLink+1600Gb/s RoCE per node", None, 200, None),
        ("NVLink + 4x100Gb RoCE per node", None, 50, None),
        ("NVLink(4) + 4x Omni-Path 100Gb (Jean Zay)", None, 50, None),
        ("NVLink3 8-GPU + 8x200Gb HDR IB (Selene DGX A100)", None, 200, None),
        ("NVLink 8-GPU + 400Gb/s RDMA per GPU (Grand Teton)", None, None, 50),
        ("NVLink4 + 8x50GB/s IB", None, 400, None),
        ("NeuronLink + EFA (trn1/trn1n.32xlarge)", None, None, None),
        ("NVLink 900GB/s + 400Gb/s", None, None, 50),
        ("8x NDR InfiniBand", None, 400, None),
        ("HDR InfiniBand", None, None, 25),
        ("8x400Gb", None, 400, None),
        ("", None, None, None),
        ("0Gb/s per node", None, None, None),
    ],
)
def test_interconnect_texts(text, domain, per_node, per_gpu):
    fabric = read_fabric(text)
    expected = [np.nan if value is None else value for value in (domain, per_node, per_gpu)]
    np.testing.assert_array_equal([fabric.domain, fabric.per_node, fabric.per_gpu], expected)


def test_fabrics_achieve_what_the_clusters_say():
    names = ("3.2Tb/s EFA per node", "4x Omni-Path 100Gb", "8x400Gb IB", "1600Gb/s RoCE per node", "")
    assert [read_fabric(name).efficiency for name in names] == [0.74, 0.80, 0.85, 0.80, 0.85]
    assert [read_fabric(name).latency_us for name in names] == [18, 14, 14, 14, 14]
    assert inner_link(catalog.load_hardware("a100-sxm-80")) == (0.78, 3.4)
    assert inner_link(catalog.load_hardware("h100-sxm")) == (0.81, 3.4)


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("H100-80G", "h100-sxm"), ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("A100", "a100-sxm-80"),
        ("A100-40GB", "a100-sxm-40"), ("V100-16G", "v100-sxm2-16"), ("AMD Instinct MI300X", "mi300x"),
        ("Google TPU v5p", "tpu-v5p"),
    ],
)  # fmt: skip
def test_names_of_accelerators(name, record):
    assert read_accelerator(name) == catalog.load_hardware(record)


def test_catalogue_names_are_accelerators():
    for name in catalog.names("hardware"):
        assert read_accelerator(name) == catalog.load_hardware(name)


def test_accelerators_that_differ_from_a_record():
    titan, core, chip = read_accelerator("H100-96G"), read_accelerator("Trn1-core"), catalog.load_hardware("trainium1")
    assert (titan.memory_gb_per_s, titan.memory_gib) == (2400, 94.5)
    assert core.peak_tflop_per_s.bf16 == chip.peak_tflop_per_s.bf16 / 2
    assert (core.memory_gib, core.cores) == (chip.memory_gib / 2, chip.cores // 2)
