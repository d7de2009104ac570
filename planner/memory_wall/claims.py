"""The paper's claims, each computed: it holds, holds if, or does not hold, and under which condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from planner import catalog
from planner.memory_wall import published, remedies
from planner.memory_wall.comparison import WRONG, Compared, Table
from planner.memory_wall.published import PublishedClaim
from planner.memory_wall.tables import Network, Wall
from planner.memory_wall.trends import Fit, Trend, fit, trends

HOLDS, HOLDS_IF, FAILS = "holds", "holds if", "does not hold"
#: A printed growth rate has one or two digits: it holds where the fit is this close, relatively.
RATE_TOLERANCE = 0.1
EDITION_2021 = date(2021, 3, 29)  # the article of the 2021 edition
#: Where remedies are computed.
REFERENCE_MODEL, REFERENCE_HARDWARE = "gpt3-175b", "h100-sxm"
TENSOR_RANKS, EXTRA_COMPUTE, SCALE_GROUP, LARGE_BATCH = 8, 0.2, 128, 256


@dataclass(frozen=True)
class Finding:
    """What a claim comes to: a number in the claim's unit, the verdict, and when it is so."""

    computed: float
    verdict: str
    condition: str


@dataclass(frozen=True)
class Claim:
    """A published claim with our finding."""

    published: PublishedClaim
    finding: Finding


@dataclass(frozen=True)
class _Evidence:
    """What claims are judged by."""

    wall: Wall
    trends: dict[str, Trend]
    tables: dict[str, Table]


def claims(wall: Wall) -> list[Claim]:
    """All claims, judged. Raises `InputError` where the catalogue lacks a record that they need."""
    evidence = _Evidence(
        wall,
        {trend.legend.key: trend for trend in trends()},
        {table.key: table for table in (wall.transformer_table(), wall.memory_table())},
    )
    return [Claim(claim, JUDGES[claim.key](claim, evidence)) for claim in published.claims()]


def _rate(series: str, years: float) -> Callable[[PublishedClaim, _Evidence], Finding]:
    """A judge of a growth rate: the fit over the points of the 2024 edition."""

    def judge(claim: PublishedClaim, evidence: _Evidence) -> Finding:
        trend = evidence.trends[series]
        rate = trend.fit.rate(years)
        near = abs(rate / claim.low - 1) <= RATE_TOLERANCE
        condition = f"fit over {trend.fit.points} points, {trend.fit.first.year} to {trend.fit.last.year}"
        if claim.edition == "2021":
            earlier = _until(trend, EDITION_2021).rate(years)
            condition = f"over the 2024 edition's points; over those before April 2021 {earlier:,.4g}; "
            condition += "the 2021 edition's own points are not published" if not near else "as in the 2024 edition"
        return Finding(rate, HOLDS if near else FAILS, condition)

    return judge


def _until(trend: Trend, end: date) -> Fit:
    return fit([point for point in trend.points if point.date <= end])


def _bytes_per_parameter(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    ratios = [1e9 * chip.memory_gb / chip.drawn_at_parameters for chip in published.accelerators()]
    mean = sum(ratios) / len(ratios)
    near = all(abs(ratio / claim.low - 1) <= 0.01 for ratio in ratios)
    condition = (
        f"{min(ratios):.3f} to {max(ratios):.3f} for the {len(ratios)} accelerators; training with Adam in mixed "
    )
    return Finding(mean, HOLDS if near else FAILS, condition + f"precision needs {remedies.state_bytes(0, 1):.0f}")


def _worst(table: str, column: str) -> Callable[[PublishedClaim, _Evidence], Finding]:
    """A judge of a formula: the largest deviation over the rows where the source is not at fault, %."""

    def judge(claim: PublishedClaim, evidence: _Evidence) -> Finding:
        cells = [
            (str(row["model"]), cell, cell.deviation)
            for row in evidence.tables[table].rows
            if isinstance(cell := row.get(column), Compared) and cell.deviation is not None and cell.verdict != WRONG
        ]
        name, _, worst = max(cells, key=lambda entry: abs(entry[2]))
        off = 100 * abs(worst)
        return Finding(off, HOLDS if off <= claim.high else FAILS, f"{len(cells)} rows; the farthest off is {name}")

    return judge


def _training_flop(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    row = next(row for row in evidence.tables["transformers"].rows if row["model"] == "GPT-3")
    cell = row["training_pflop"]
    assert isinstance(cell, Compared)
    assert cell.computed is not None
    near = abs(cell.computed / claim.low - 1) <= cell.tolerance
    condition = "three forward passes for each of 300 billion tokens, all of the attention's scores counted"
    return Finding(cell.computed, HOLDS if near else FAILS, condition)


def _optimizer(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    """Printed optimizer memory over what the printed parameters say, %."""
    offs = {}
    for name, row in published.table("training").items():
        states = 1 if isinstance(evidence.wall.find(name), Network) else 2
        offs[name] = 100 * abs(row["optimizer_gib"] / (states * row["parameters_gib"]) - 1)
    worst = max(offs, key=lambda name: offs[name])
    condition = f"{len(offs)} rows; the farthest off is {worst}; parameters in fp32, no gradients counted"
    return Finding(offs[worst], HOLDS if offs[worst] <= claim.high else FAILS, condition)


def _activations(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    ratios = {}
    for row in evidence.tables["memory"].rows:
        ratio, batch = row["activation_ratio"], row["batch"]
        assert isinstance(ratio, float)
        assert isinstance(batch, int)
        ratios[str(row["model"])] = (ratio, batch)
    vision = [ratio for name, (ratio, _) in ratios.items() if isinstance(evidence.wall.find(name), Network)]
    (bert, batch), (gpt, small) = ratios["BERT Large"], ratios["GPT-2"]
    low, high = claim.low * small / gpt, claim.high * small / gpt
    condition = (
        f"BERT Large at batch {batch}; GPT-2 has {gpt:.2f} at batch {small} and {claim.low:g} to {claim.high:g} at batches "
        f"{low:.1f} to {high:.1f}; convolutional networks {min(vision):.1f} to {max(vision):.0f}: it grows with the batch"
    )
    return Finding(bert, HOLDS_IF if claim.low <= bert <= claim.high else FAILS, condition)


def _recomputation(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    model = catalog.load_model(REFERENCE_MODEL)
    length = model.sequence_length
    gain = remedies.recomputation_gain(model, length, EXTRA_COMPUTE, fused=False)
    fused = remedies.recomputation_gain(model, length, EXTRA_COMPUTE, fused=True)
    whole = remedies.recomputation_gain(model, length, 1 / 3, fused=False)
    sharded = remedies.tensor_parallel_gain(model, length, TENSOR_RANKS)
    condition = (
        f"the scores were kept before (no fused attention, then {fused:.1f}x); {model.name} at {length} tokens, scores "
        f"first, then whole layers; all layers: {whole:.0f}x for 33 %; on {TENSOR_RANKS} tensor ranks sequence parallelism "
        f"and the scores alone give {sharded:.1f}x"
    )
    return Finding(gain, _verdict([gain, fused], claim.low), condition)


def _zero(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    limit = remedies.zero_gain(2, float("inf"))
    ranks = remedies.zero_ranks(2, 0.9 * claim.low)
    condition = (
        f"ZeRO-2 on many ranks: {remedies.zero_gain(2, 64):.1f}x on 64, nine tenths of it on {ranks:.0f}; ZeRO-1 stays below "
        f"{remedies.zero_gain(1, float('inf')):.0f}x, ZeRO-3 reaches as many times as ranks; states only, not activations"
    )
    return Finding(limit, HOLDS_IF if limit >= claim.low else FAILS, condition)


def _half_precision(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    gains = {}
    for name in ("p100-sxm2-16", "v100-sxm2-32", "a100-sxm-80", "h100-sxm", "b200-sxm"):
        peak = catalog.load_hardware(name).peak_tflop_per_s
        if peak.fp16 is not None and peak.fp32 is not None:
            gains[name] = peak.fp16 / peak.fp32
    listed = ", ".join(f"{name} {gain:.1f}x" for name, gain in gains.items())
    return Finding(max(gains.values()), _verdict(list(gains.values()), claim.low), f"matrix units since 2020: {listed}")


def _footprint(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    gain = remedies.integer_footprint(4)
    grouped = remedies.integer_footprint(4, SCALE_GROUP)
    condition = (
        f"weights against fp32, without scales: {grouped:.2f}x with one of 16 bits for {SCALE_GROUP}; "
        f"{remedies.integer_footprint(8):.0f}x in 8 bits; half of it against 16-bit weights"
    )
    return Finding(gain, _verdict([gain, grouped], claim.low), condition)


def _latency(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    hardware = catalog.load_hardware(REFERENCE_HARDWARE)
    gain, large = (remedies.decode_gain(hardware, 4, batch) for batch in (1, LARGE_BATCH))
    bound = remedies.memory_bound_batch(hardware, 4)
    condition = (
        f"reading weights is what takes the time: up to {bound:.0f} sequences at once on {hardware.name}, {large:.1f}x at "
        f"{LARGE_BATCH}; {remedies.decode_gain(hardware, 8, 1):.0f}x in 8 bits; keys and values left out"
    )
    return Finding(gain, _verdict([gain, large], claim.low), condition)


def _structured(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    one, both = remedies.pruned_footprint(0.7), remedies.pruned_footprint(0.7**2)
    condition = (
        f"30 % of one side of each matrix, {both:.2f}x where both sides shrink; that accuracy survives is not computed"
    )
    return Finding(one, HOLDS_IF if abs(one / claim.low - 1) < 0.01 else FAILS, condition)


def _unstructured(claim: PublishedClaim, evidence: _Evidence) -> Finding:
    ideal, indexed = remedies.pruned_footprint(0.2), remedies.pruned_footprint(0.2, 1.0)
    condition = (
        f"without indices: {indexed:.1f}x with one byte for each 16-bit weight left; no FLOP are saved without sparse "
        "matrix units; that accuracy survives is not computed"
    )
    return Finding(ideal, _verdict([round(ideal, 9), indexed], claim.low), condition)


def _verdict(values: list[float], least: float) -> str:
    """Whether all cases reach the claim, some, or none."""
    reached = [value >= least for value in values]
    return HOLDS if all(reached) else HOLDS_IF if any(reached) else FAILS


#: Who judges which claim.
JUDGES: dict[str, Callable[[PublishedClaim, _Evidence], Finding]] = {
    "size_2024": _rate("model_size", 2), "size_2021": _rate("model_size", 2),
    "accelerator_memory": _rate("accelerator_memory", 2), "compute_2024": _rate("training_compute", 2),
    "hw_flops_two_years": _rate("hw_flops", 2), "dram_two_years": _rate("dram_bw", 2),
    "interconnect_two_years": _rate("interconnect_bw", 2),
    "hw_flops_2024": _rate("hw_flops", 20), "dram_2024": _rate("dram_bw", 20),
    "interconnect_2024": _rate("interconnect_bw", 20),
    "hw_flops_2021": _rate("hw_flops", 20), "dram_2021": _rate("dram_bw", 20),
    "interconnect_2021": _rate("interconnect_bw", 20),
    "bytes_per_parameter": _bytes_per_parameter, "features": _worst("transformers", "features"),
    "forward_flop": _worst("transformers", "forward_gflop"), "training_flop": _training_flop, "optimizer": _optimizer,
    "activations": _activations, "recomputation": _recomputation, "zero": _zero, "half_precision": _half_precision,
    "int4_footprint": _footprint, "int4_latency": _latency, "structured_pruning": _structured,
    "unstructured_pruning": _unstructured,
}  # fmt: skip
