"""The system columns of a table: each row's accelerator, the size of its node, and the links in and between nodes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from planner import catalog
from planner.algebra.expressions import Array
from planner.errors import InputError
from planner.rows.table import Codes, Table
from planner.schema.base import read_toml
from planner.schema.hardware import Hardware

#: A scale-up domain beyond this is a rack's or a pod's, not a node's: ``gpus_per_node`` is only a tray of it.
LARGEST_NODE = 16

#: What a name of an accelerator says beside it.
_MAKERS = r"nvidia|amd|google|aws|intel|tesla|instinct"

#: Words that mark a link inside a node, and one between nodes.
_INSIDE = re.compile(r"nvlink|nvswitch|nvl\d|xgmi|infinity fabric|neuronlink|pcie|\bici\b", re.IGNORECASE)
_BETWEEN = re.compile(
    r"\bib\b|infiniband|[ehnx]dr\b|roce|\befa\b|rdma|omni|ethernet|slingshot|\bnics?\b|per (?:node|gpu)", re.IGNORECASE
)
_RATE = r"(\d+(?:\.\d+)?)\s*([GT])(b|B)"
_PORTS = re.compile(r"(\d+)\s*[x×]\s*(?:[A-Za-z][A-Za-z-]*\s+)*?" + _RATE, re.IGNORECASE)
_GENERATION = re.compile(r"(?:(\d+)\s*[x×]\s*)?\b([ehnx]dr)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Fabric:
    """What a text says of the network: rates one way in GB/s, NaN where it says nothing; ``domain`` is NVL72's 72."""

    domain: float = np.nan
    per_node: float = np.nan
    per_gpu: float = np.nan
    efficiency: float = 1.0
    latency_us: float = 0.0


@dataclass(frozen=True)
class Systems:
    """One system a row; arrays of shape (rows,), rates in B/s as achieved, latencies in s."""

    hardware: tuple[Codes, list[Hardware | None]]
    domain: Array  # accelerators that the inner links join
    inner_bandwidth: Array
    inner_latency: Array
    outer_bandwidth: Array
    outer_latency: Array


def read_systems(table: Table) -> Systems:
    """The systems of ``table``; rows whose accelerator is not known are rejected.

    The inner tier is the node of ``gpus_per_node``, or NVL72's 72, or the whole scale-up domain where that is more than
    a node (GB200 in trays of 4). The outer tier is what ``interconnect`` states, else the accelerator's own network.
    Latencies and achieved fractions are those of the catalogue's clusters.
    """
    codes, accelerators = table.parsed("gpu", read_accelerator, None)
    fabric_codes, fabrics = table.parsed("interconnect", read_fabric, Fabric())
    node = table.numbers("gpus_per_node")

    def of_part(values: list[float]) -> Array:
        return np.array(values, dtype=float)[codes]

    def of_fabric(key: str) -> Array:
        return np.array([getattr(fabric, key) for fabric in fabrics], dtype=float)[fabric_codes]

    parts = [part or catalog_default() for part in accelerators]
    scale_up = of_part([float(part.scale_up_domain) for part in parts])
    node = np.where(np.isnan(node), np.minimum(scale_up, LARGEST_NODE), node)
    rack = np.where(scale_up > LARGEST_NODE, np.maximum(scale_up, node), node)
    domain = np.where(np.isnan(of_fabric("domain")), rack, of_fabric("domain"))
    per_gpu = np.where(np.isnan(of_fabric("per_gpu")), of_fabric("per_node") / node, of_fabric("per_gpu"))
    own = of_part([part.scale_out_gb_per_s or part.scale_up_gb_per_s or 1.0 for part in parts])
    outer = np.where(np.isnan(per_gpu), own, per_gpu)
    inner = of_part([part.scale_up_gb_per_s or part.scale_out_gb_per_s or 1.0 for part in parts])
    achieved = [inner_link(part) for part in parts]
    return Systems(
        hardware=(codes, accelerators),
        domain=domain,
        inner_bandwidth=inner * 1e9 * of_part([efficiency for efficiency, _ in achieved]),
        inner_latency=of_part([latency for _, latency in achieved]) * 1e-6,
        outer_bandwidth=outer * 1e9 * of_fabric("efficiency"),
        outer_latency=of_fabric("latency_us") * 1e-6,
    )


def read_accelerator(name: str) -> Hardware | None:
    """The record that a name stands for. Raises `ValueError` with near names where it stands for none."""
    if not name:
        raise ValueError("is empty: the accelerator is needed")
    table = _accelerators()
    entry = table.get(_letters(name))
    if entry is None:
        if name in catalog.names("hardware"):
            return catalog.load_hardware(name)
        near = difflib.get_close_matches(_letters(name), list(table), n=3, cutoff=0.4)
        known = dict.fromkeys(str(table[letters]["names"][0]) for letters in near)
        hint = f"; did you mean {', '.join(known)}?" if known else "; 'planner list hardware' shows the known ones"
        raise ValueError(f"is no known accelerator{hint}")
    record = catalog.load_hardware(entry["hardware"])
    return _divide(record.model_copy(update=entry.get("override", {})), entry.get("part", 1))


def read_fabric(text: str) -> Fabric:
    """What is stated by a text such as ``NVLink4 8-GPU + 8x400Gb IB`` or ``3.2Tb/s EFA per node``.

    Ports are counted for a node (8x400Gb) unless they are ``per GPU``; a rate alone is a node's only if it is ``per
    node``, else an accelerator's. Rates of NVLink and the like are the hardware record's, not read here.
    """
    found: dict[str, float] = {}
    domain = re.search(r"nvl\s?(\d+)", text, re.IGNORECASE)
    if domain and int(domain[1]):
        found["domain"] = float(domain[1])
    for segment in re.split(r"[+;,]|\sand\s|\s/\s", text):
        if _INSIDE.search(segment) and not _BETWEEN.search(segment):
            continue
        scope = "per_gpu" if re.search(r"(?:per|/)\s*(?:gpu|accelerator|chip|rank)", segment, re.IGNORECASE) else ""
        node = "per_node" if re.search(r"(?:per|/)\s*node", segment, re.IGNORECASE) else ""
        if ports := _PORTS.search(segment):
            key, value = scope or "per_node", int(ports[1]) * _gigabytes(*ports.group(2, 3, 4))
        elif rate := re.search(_RATE, segment, re.IGNORECASE):
            key, value = scope or node or "per_gpu", _gigabytes(*rate.group(1, 2, 3))
        elif generation := _GENERATION.search(segment):
            port = float(_fabrics()["ports_gb_per_s"][generation[2].lower()])
            key = scope or ("per_node" if generation[1] else "per_gpu")
            value = int(generation[1] or 1) * port
        else:
            continue
        if value > 0:
            found.setdefault(key, value)
    entry = _fabric_entry(text)
    return Fabric(**found, efficiency=entry["efficiency"], latency_us=entry["latency_us"])


@lru_cache(maxsize=256)
def inner_link(hardware: Hardware) -> tuple[float, float]:
    """(achieved fraction, latency in us) of an accelerator's scale-up links, from a catalogue cluster of it.

    The tier with the accelerator's scale-up bandwidth is taken, else the innermost; without a cluster, A100's figures.
    """
    for cluster in _clusters().get(hardware.name, []):
        rates = [tier.bandwidth_gb_per_s for tier in cluster.tiers]
        place = rates.index(hardware.scale_up_gb_per_s) if hardware.scale_up_gb_per_s in rates else 0
        return cluster.tiers[place].efficiency, cluster.tiers[place].latency_us
    return 0.78, 3.4


@lru_cache(maxsize=1)
def catalog_default() -> Hardware:
    """Stands in for the accelerator of a rejected row, whose values are never shown."""
    return catalog.load_hardware("h100-sxm")


def _divide(record: Hardware, parts: int) -> Hardware:
    """One of ``parts`` equal parts of an accelerator."""
    if parts == 1:
        return record
    shares = ("memory_gib", "memory_gb_per_s", "scale_up_gb_per_s", "scale_out_gb_per_s", "context_gib")
    peaks = {name: rate / parts for name, rate in record.peak_tflop_per_s if rate is not None}
    update: dict[str, Any] = {name: getattr(record, name) / parts for name in shares}
    update["peak_tflop_per_s"] = record.peak_tflop_per_s.model_copy(update=peaks)
    update |= {"cores": max(1, record.cores // parts), "scale_up_domain": record.scale_up_domain * parts}
    return record.model_copy(update=update)


def _gigabytes(number: str, prefix: str, unit: str) -> float:
    scale = {"G": 1.0, "T": 1000.0}[prefix.upper()]
    return float(number) * scale / (8.0 if unit == "b" else 1.0)


def _letters(name: str) -> str:
    """A name without makers, case and punctuation; ``80GB`` is ``80g``."""
    text = re.sub(rf"\b(?:{_MAKERS})\b", "", name.lower())
    return re.sub(r"(?<=\d)gi?b", "g", re.sub(r"[^a-z0-9]", "", text))


def _fabric_entry(text: str) -> Mapping[str, Any]:
    for entry in _fabrics()["fabric"]:
        words = "|".join(re.escape(word) for word in entry["words"])
        if re.search(rf"(?<![a-z])(?:{words})(?![a-z])", text, re.IGNORECASE):
            return dict(entry)
    return dict(_fabrics()["default"])


@lru_cache(maxsize=1)
def _accelerators() -> dict[str, dict[str, Any]]:
    """Entries of ``gpu_names.toml`` by their names' letters."""
    path = catalog.root() / "instances" / "published" / "gpu_names.toml"
    entries: dict[str, dict[str, Any]] = {}
    for entry in read_toml(path)["accelerator"]:
        for name in entry["names"]:
            if entries.setdefault(_letters(name), entry) is not entry:
                raise InputError(f"{path}: {name}: stands for two accelerators")
    return entries


@lru_cache(maxsize=1)
def _fabrics() -> dict[str, Any]:
    return read_toml(catalog.root() / "instances" / "published" / "fabrics.toml")


@lru_cache(maxsize=1)
def _clusters() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name in catalog.names("cluster"):
        cluster = catalog.load_cluster(name)
        found.setdefault(cluster.accelerator, []).append(cluster)
    return found
