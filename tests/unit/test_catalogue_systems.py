"""The catalogue of accelerators and clusters: every file loads, names its source, and holds no marketing figure."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from planner import catalog

HARDWARE = catalog.names("hardware")
CLUSTERS = catalog.names("cluster")

#: Published matrix rates with structured sparsity, or of more than one rank, TFLOP/s, 16-bit.
MARKETING_16BIT = {
    "a100-sxm-40": {624},
    "a100-sxm-80": {624},
    "a100-pcie-80": {624},
    "a800-sxm-80": {624},
    "b100": {3500},
    "b200-sxm": {4500},
    "b300-sxm": {4500},
    "gb200": {5000},
    "gb300": {5000},
    "gh200-96": {1979},
    "h100-nvl": {1671},
    "h100-pcie": {1513},
    "h100-sxm": {1979},
    "h200-sxm": {1979},
    "h20": {296},
    "h800-sxm": {1979},
    "mi250x": {383},
    "mi300x": {2614.9},
    "mi325x": {2614.9},
    "mi350x": {4613.7},
    "mi355x": {5033.2},
    "rtx-3090": {142},
    "rtx-4090": {330.4},
    "trainium2": {2563},
    "trainium3": {2517},
}

#: The same for 8 bits.
MARKETING_8BIT = {
    "b200-sxm": {9000},
    "gb200": {10000},
    "h100-nvl": {3341},
    "h100-sxm": {3958},
    "h200-sxm": {3958},
    "mi300x": {5229.8},
    "mi325x": {5229.8},
    "mi355x": {10066},
}

#: name: (16-bit TFLOP/s, memory GB/s, cores, one-way scale-up GB/s, domain)
SPOT = {
    "a100-sxm-80": (312, 2039, 108, 300, 8),
    "h100-sxm": (989.4, 3350, 132, 450, 8),
    "h800-sxm": (989.4, 3350, 132, 200, 8),
    "h20": (148, 4000, 78, 450, 8),
    "v100-sxm2-32": (125, 900, 80, 150, 8),
    "b200-sxm": (2250, 8000, 148, 900, 8),
    "gb200": (2500, 8000, 152, 900, 72),
    "mi250x": (191.5, 1640, 110, 175, 8),
    "mi300x": (1307.4, 5300, 304, 448, 8),
    "tpu-v5p": (459, 2765, 8, 600, 8960),
    "trainium2": (667, 2900, 8, 640, 16),
    "rtx-4090": (165.2, 1008, 128, 25, 4),
}


def rate_16bit(name: str) -> float:
    peak = catalog.load_hardware(name).peak_tflop_per_s
    rate = peak.bf16 or peak.fp16
    assert rate is not None
    return rate


def test_catalogue_is_broad() -> None:
    assert len(HARDWARE) >= 30
    assert len(CLUSTERS) >= 14
    assert len({catalog.load_hardware(name).vendor for name in HARDWARE}) >= 5


@pytest.mark.parametrize("name", HARDWARE)
def test_hardware_loads_and_is_plausible(name: str) -> None:
    part = catalog.load_hardware(name)
    assert part.name == name
    assert 20 <= rate_16bit(name) <= 10_000
    # FLOP for each byte of memory traffic: between the oldest part and the newest
    assert 20 <= 1000 * rate_16bit(name) / part.memory_gb_per_s <= 1000
    assert part.context_gib < part.memory_gib / 5
    assert part.scale_out_gb_per_s <= part.scale_up_gb_per_s
    for rate in (part.peak_tflop_per_s.fp8, part.peak_tflop_per_s.fp4):
        assert rate is None or rate_16bit(name) <= rate <= 8 * rate_16bit(name)


@pytest.mark.parametrize(("kind", "name"), [("hardware", n) for n in HARDWARE] + [("cluster", n) for n in CLUSTERS])
def test_record_names_its_source(kind: str, name: str) -> None:
    record = catalog.load_hardware(name) if kind == "hardware" else catalog.load_cluster(name)
    assert len(record.source) > 10
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", record.date)
    text = catalog.locate(kind, name).read_text("utf-8")
    assert "../" not in text
    assert "/work" not in text
    assert ".csv" not in text.replace("data/datacenter_chips.csv", "")  # that one is in a public repository


@pytest.mark.parametrize("name", HARDWARE)
def test_hardware_price_has_a_source(name: str) -> None:
    part = catalog.load_hardware(name)
    assert (part.usd_per_hour is None) == (part.price_source == "")
    assert part.usd_per_hour is None or 0.1 <= part.usd_per_hour <= 15


@pytest.mark.parametrize("name", HARDWARE)
def test_own_efficiency_has_its_own_source(name: str) -> None:
    part = catalog.load_hardware(name)
    values = part.efficiency
    assert len(values.source) > 20
    if "efficiency" in part.model_fields_set:
        assert "source" in values.model_fields_set
        assert values.attention_backward <= values.attention_forward
        assert values.matmul_16bit >= values.attention_backward


@pytest.mark.parametrize("name", MARKETING_16BIT)
def test_16bit_rate_is_not_the_sparse_one(name: str) -> None:
    peak = catalog.load_hardware(name).peak_tflop_per_s
    for rate in (peak.bf16, peak.fp16):
        assert rate is None or all(rate < 0.99 * trap for trap in MARKETING_16BIT[name])


@pytest.mark.parametrize("name", MARKETING_8BIT)
def test_8bit_rate_is_not_the_sparse_one(name: str) -> None:
    rate = catalog.load_hardware(name).peak_tflop_per_s.fp8
    assert rate is not None
    assert all(rate < 0.99 * trap for trap in MARKETING_8BIT[name])


@pytest.mark.parametrize("name", SPOT)
def test_spot_values(name: str) -> None:
    part = catalog.load_hardware(name)
    links = (part.scale_up_gb_per_s, part.scale_up_domain)
    assert (rate_16bit(name), part.memory_gb_per_s, part.cores, *links) == pytest.approx(SPOT[name], rel=1e-6)


def test_parts_without_bf16() -> None:
    without = {name for name in HARDWARE if catalog.load_hardware(name).peak_tflop_per_s.bf16 is None}
    assert without == {"p100-sxm2-16", "v100-sxm2-16", "v100-sxm2-32"}


def test_addressable_memory_is_below_the_label() -> None:
    # the label counts 10^9 bytes or the raw chips; a process gets less
    for name, label in {"a100-sxm-40": 40, "a100-sxm-80": 80, "h100-sxm": 80, "h200-sxm": 141, "gb300": 288}.items():
        assert 0.9 * label <= catalog.load_hardware(name).memory_gib < label


@pytest.mark.parametrize("name", CLUSTERS)
def test_cluster_loads_nests_and_knows_its_accelerator(name: str) -> None:
    cluster = catalog.load_cluster(name)
    assert cluster.name == name
    part = catalog.load_hardware(cluster.accelerator)
    assert cluster.tiers[0].bandwidth_gb_per_s <= max(part.scale_up_gb_per_s, 200)  # 200: the two dies of an MI250X
    for inner, outer in pairwise(cluster.tiers):
        assert outer.size % inner.size == 0
        assert outer.size > inner.size
        assert outer.bandwidth_gb_per_s <= inner.bandwidth_gb_per_s
        assert outer.latency_us >= inner.latency_us


def test_cluster_spot_values() -> None:
    llama = catalog.load_cluster("llama3-roce-24k")
    assert (llama.accelerators, llama.fanouts) == (24576, [8, 384, 8])
    assert llama.tiers[2].bandwidth_gb_per_s == pytest.approx(llama.tiers[1].bandwidth_gb_per_s / 7, rel=1e-3)
    assert catalog.load_cluster("deepseek-h800-1m").accelerators == 2**20
    assert catalog.load_cluster("selene-a100").accelerators == 560 * 8
    assert catalog.load_cluster("tpu-v4-pod").accelerators == 4096
    wan = catalog.load_cluster("two-sites-h100-wan").tiers[-1]
    # 100 Gb/s one way, shared by the 1,024 GPUs of a site
    assert wan.bandwidth_gb_per_s * 1024 == pytest.approx(12.5, rel=0.01)
    assert wan.latency_us == 30_000


def test_hypothetical_clusters_say_so() -> None:
    for name in ("deepseek-h800-1m", "two-sites-h100-wan"):
        assert catalog.load_cluster(name).note.startswith("Hypothetical")
