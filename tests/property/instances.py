"""Random small instances: varied models, clusters, limits and fixed decisions, infeasible ones included."""

from __future__ import annotations

import random
from typing import Any

from planner.instance import Instance, assemble
from planner.schema.base import validate
from planner.schema.cluster import Cluster
from planner.schema.hardware import Hardware
from planner.schema.model import Model
from planner.schema.problem import Problem

#: Exhaustive enumeration of more than this takes too long for a property test.
MOST_PLANS = 60_000


def random_model(choose: random.Random) -> Model:
    """A small transformer: plain or gated, grouped-query or latent attention, dense or a mixture."""
    heads = choose.choice([4, 6, 8, 12, 16])
    kv_heads = choose.choice([heads, max(1, heads // 2), 1])
    head_dim = choose.choice([32, 64, 128])
    layers = choose.choice([2, 3, 4, 6, 7, 8, 12, 13])
    document: dict[str, Any] = {
        "schema": 1, "name": "random", "family": "random", "year": 2026, "source": "generated",
        "layers": layers, "d_model": heads * head_dim, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim,
        "d_ff": heads * head_dim * choose.choice([2, 4]), "gated_mlp": choose.random() < 0.5,
        "vocab": choose.choice([1000, 32000, 128256]), "tied_embeddings": choose.random() < 0.3,
        "sequence_length": 4096,
    }  # fmt: skip
    if choose.random() < 0.4:
        experts = choose.choice([4, 6, 8, 16])
        shared = choose.choice([0, 1])
        document["moe"] = {
            "experts": experts, "top_k": choose.choice([1, 2]), "d_expert": choose.choice([256, 384, 1024]),
            "shared_experts": shared, "d_shared": 512 * shared,
            "first_dense_layers": choose.choice([0, 1]) if layers > 1 else 0, "layer_step": choose.choice([1, 1, 2]),
        }  # fmt: skip
        document["mtp_layers"] = choose.choice([0, 0, 1])
    if choose.random() < 0.2:
        document["mla"] = {"q_lora_rank": choose.choice([0, 192]), "kv_lora_rank": 128, "qk_nope_dim": 64,
                           "qk_rope_dim": 32, "v_head_dim": 64}  # fmt: skip
    if choose.random() < 0.2:
        document["sliding_window"] = {"window": 256, "global_every": choose.choice([0, 2])}
    return validate(Model, document, "random model")


def random_hardware(choose: random.Random) -> Hardware:
    """An accelerator of random rates, with little memory so that it matters."""
    return validate(Hardware, {
        "schema": 1, "name": "random", "vendor": "none", "year": 2026, "source": "generated", "date": "2026-12",
        "peak_tflop_per_s": {"bf16": choose.choice([100.0, 400.0, 1000.0]), "fp8": 2000.0},
        "memory_gib": choose.choice([0.5, 1.0, 2.0, 4.0, 16.0, 80.0]), "memory_gb_per_s": choose.choice([900.0, 3300.0]),
        "cores": choose.choice([64, 108, 132]), "scale_up_gb_per_s": 300.0, "scale_up_domain": 8,
        "scale_out_gb_per_s": 25.0, "context_gib": 0.2,
    }, "random hardware")  # fmt: skip


def random_cluster(choose: random.Random) -> Cluster:
    """One to three tiers; bandwidth falls and latency grows outwards."""
    fanouts = [choose.choice([2, 4, 8]), choose.choice([2, 3, 4]), choose.choice([2, 4])][: choose.choice([1, 2, 2, 3])]
    tiers, size, bandwidth, latency = [], 1, choose.choice([100.0, 450.0]), 3.0
    for number, fanout in enumerate(fanouts):
        size *= fanout
        tiers.append({"name": f"tier{number}", "size": size, "bandwidth_gb_per_s": bandwidth, "latency_us": latency})
        bandwidth, latency = bandwidth / choose.choice([2.0, 8.0, 20.0]), latency * choose.choice([1.0, 4.0])
    return validate(Cluster, {"schema": 1, "name": "random", "accelerator": "random", "source": "generated",
                              "date": "2026-12", "tiers": tiers}, "random cluster")  # fmt: skip


def random_problem(choose: random.Random, model: Model, cluster: Cluster) -> Problem:
    """Training and restrictions; most decisions free, some fixed, bounded or listed."""
    total = cluster.accelerators
    gpus: Any = choose.choice([total, total, {"max": total}, max(1, total // 2), {"max": max(1, total - 1)}])
    batch = choose.choice([4, 6, 8, 12, 16, 24, 32])
    decisions: dict[str, Any] = {}

    def sometimes(chance: float, key: str, *options: Any) -> None:
        if choose.random() < chance:
            decisions[key] = choose.choice(options)

    sometimes(0.3, "tp", 1, 2, [1, 2], {"max": 4})
    sometimes(0.5, "cp", 1, 1, {"max": 2})
    sometimes(0.3, "pp", 1, 2, {"max": 4}, [1, 3])
    sometimes(0.3, "replicas", 1, 2)
    sometimes(0.3, "zero", 0, 1, 3, [1, 2], [0, 3])
    sometimes(0.4, "recompute", "none", "full", ["none", "selective"])
    sometimes(0.3, "schedule", "1f1b", "gpipe", ["interleaved", "1f1b"], "zero-bubble")
    sometimes(0.3, "precision", ["bf16", "fp8"], "fp8")
    sometimes(0.2, "sequence_parallel", True, False)
    sometimes(0.3, "micro_batch", 1, {"max": 2})
    if model.moe is not None:
        sometimes(0.4, "etp", 1)
        sometimes(0.2, "ep", 1, {"max": 4})
    document = {
        "schema": 1, "name": "random", "model": "random", "cluster": "random",
        "training": {
            "gpus": gpus, "sequence_length": choose.choice([512, 1024, 2048]),
            "global_batch": choose.choice([batch, batch, batch, [batch, 2 * batch], {"max": batch}]),
        },
        "decisions": decisions,
        "assumptions": {
            "attention": choose.choice(["fused", "fused", "unfused"]), "folding": choose.random() < 0.7,
            "dp_overlap": choose.choice([0.0, 0.5, 0.8, 1.0]), "tp_overlap": choose.choice([0.0, 0.5]),
            "gradient_bytes": choose.choice([2, 4]), "reshard": choose.choice(["micro-batch", "step"]),
            "host_ms": choose.choice([0.0, 0.0, 0.05, 1.0]), "host_moe_ms": choose.choice([0.0, 0.5]),
            "gradient_compression": choose.choice([1.0, 1.0, 0.25]), "activation_compression": choose.choice([1.0, 0.5]),
            "local_steps": choose.choice([1, 1, 8]),
            "step_ms": choose.choice([0.0, 5.0]), "elementwise": choose.choice([1.0, 2.0]),
            "stages": choose.choice(["even", "even", "weighed"]),
            "dispatch": choose.choice(["all-to-all", "deduplicated"]),
        },
    }  # fmt: skip
    return validate(Problem, document, "random problem")


def random_instance(seed: int) -> Instance:
    """The instance of a seed. Raises `InputError` where the restrictions leave an axis without a value."""
    choose = random.Random(seed)
    model, hardware, cluster = random_model(choose), random_hardware(choose), random_cluster(choose)
    return assemble(random_problem(choose, model, cluster), model, hardware, cluster, f"seed {seed}")
