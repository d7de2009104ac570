"""What the remedies of the memory wall buy, in closed form: sharded states, recomputation, fewer bits, fewer weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.schema.hardware import Hardware
    from planner.schema.model import Model

#: Bytes a parameter in mixed precision with Adam (arXiv 1910.02054, section 3.1): 16-bit weights and gradients; fp32
#: weights, momentum and variance.
WEIGHTS, GRADIENTS, OPTIMIZER = 2.0, 2.0, 12.0
FULL_BITS = 32
HALF_BYTES = 2.0


def state_bytes(stage: int, ranks: float) -> float:
    """Bytes a parameter on one of ``ranks`` data-parallel ranks with ZeRO ``stage`` 0 to 3 (arXiv 1910.02054, figure 1).

    Stage 1 shards the optimizer's states, stage 2 gradients as well, stage 3 weights as well: ``16``, ``4 + 12 / n``,
    ``2 + 14 / n``, ``16 / n``.
    """
    parts = [OPTIMIZER, GRADIENTS, WEIGHTS]
    return sum(parts[stage:]) + sum(parts[:stage]) / ranks


def zero_gain(stage: int, ranks: float) -> float:
    """How many times larger a model's states may be with ZeRO ``stage`` on ``ranks``."""
    return state_bytes(0, ranks) / state_bytes(stage, ranks)


def zero_ranks(stage: int, gain: float) -> float:
    """The ranks at which `zero_gain` reaches ``gain``: ``sharded / (16 / gain - rest)``."""
    parts = [OPTIMIZER, GRADIENTS, WEIGHTS]
    return sum(parts[:stage]) / (sum(parts) / gain - sum(parts[stage:]))


def recomputation_gain(model: Model, length: int, extra: float, *, fused: bool) -> float:
    """How many times less the layers keep when a step may compute ``extra`` more (a fraction), at best.

    Kept of a layer, bytes a token and width: ``34 + 5 a s / h``, without the scores 34, with only the layer's input 2
    (arXiv 2205.05198, sections 4 and 5). Scores cost ``4 s^2 h`` FLOP to compute again, a whole layer its forward pass, of
    three forward passes in all. Scores go first, they are the cheapest; then whole layers, as many as ``extra`` pays
    for. What one layer drops is there again while it is at work. With ``fused`` attention scores are never kept, so they
    cannot be saved.
    """
    scores = 0.0 if fused else 5.0 * model.heads * length / model.d_model
    whole = 34.0 + scores
    # Of the FLOP of a step: those of the scores in one forward pass, 4 s^2 h over 3 (24 s h^2 + 4 s^2 h).
    cheap = 0.0 if fused else 1.0 / (3.0 * (1.0 + 6.0 * model.d_model / length))
    dropped = scores * (min(1.0, extra / cheap) if cheap else 1.0)
    dropped += 32.0 * min(1.0, max(0.0, extra - cheap) / (1.0 / 3.0 - cheap))
    return whole / (whole - dropped * (1.0 - 1.0 / model.layers))


def tensor_parallel_gain(model: Model, length: int, ranks: int) -> float:
    """How many times less a layer keeps with sequence parallelism and selective recomputation than with tensor parallelism.

    ``(10 + 24 / t + 5 a s / (h t)) / (34 / t)`` on ``t`` ranks (arXiv 2205.05198, table 2).
    """
    scores = 5.0 * model.heads * length / model.d_model
    return (10.0 + (24.0 + scores) / ranks) / (34.0 / ranks)


def integer_footprint(bits: int, group: int = 0, scale_bits: int = 16) -> float:
    """How many times smaller weights of ``bits`` are than in fp32; with a scale for each ``group`` of them, if any."""
    return FULL_BITS / (bits + (scale_bits / group if group else 0.0))


def decode_gain(hardware: Hardware, bits: int, batch: int) -> float:
    """How many times faster a token of each of ``batch`` sequences is made with weights of ``bits`` than in fp32.

    A pass takes the longer of reading the weights once, ``N bits / 8 / bandwidth``, and ``2 N batch`` FLOP at the 16-bit
    peak; both weights are multiplied in 16 bits. Keys and values are left out.
    """
    return _decode_seconds(hardware, FULL_BITS, batch) / _decode_seconds(hardware, bits, batch)


def memory_bound_batch(hardware: Hardware, bits: int) -> float:
    """The batch up to which reading the weights takes longer than multiplying: ``bits / 16 peak / bandwidth``."""
    return bits / 16.0 * _peak(hardware) / (1e9 * hardware.memory_gb_per_s)


def _decode_seconds(hardware: Hardware, bits: int, batch: int) -> float:
    reading = bits / 8.0 / (1e9 * hardware.memory_gb_per_s)
    return max(reading, 2.0 * batch / _peak(hardware))


def _peak(hardware: Hardware) -> float:
    return 1e12 * (hardware.peak_tflop_per_s.fp16 or hardware.peak_tflop_per_s.bf16 or 0.0)


def pruned_footprint(kept: float, index_bytes: float = 0.0) -> float:
    """How many times smaller 16-bit weights are of which a fraction ``kept`` is left, each with its index."""
    return HALF_BYTES / (kept * (HALF_BYTES + index_bytes))
