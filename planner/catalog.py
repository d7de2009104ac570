"""The catalogue: the architectures in ``models/`` and the accelerators, clusters and problems in ``instances/``.

A reference is a name in the catalogue or a path to a file. The data lie beside the package in a checkout and inside it
in an installed wheel.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from planner.errors import InputError
from planner.schema.base import Strict, read_toml, validate

if TYPE_CHECKING:
    from planner.schema.cluster import Cluster
    from planner.schema.framework import Framework
    from planner.schema.frontier import Device
    from planner.schema.hardware import Hardware
    from planner.schema.model import Model
    from planner.schema.problem import Problem
    from planner.schema.scenario import Scenario

Record = TypeVar("Record", bound=Strict)

#: Where each kind of record lies under `root`.
FOLDERS = {
    "model": "models",
    "hardware": "instances/hardware",
    "cluster": "instances/clusters",
    "framework": "instances/frameworks",
    "device": "instances/devices",
    "problem": "instances/problems",
    "sweep": "instances/sweeps",
    "scenario": "instances/scenarios",
}


def root() -> Path:
    """The folder that holds ``models/`` and ``instances/``."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "data", package.parent):
        if (candidate / "models").is_dir() and (candidate / "instances").is_dir():
            return candidate
    raise InputError(f"{package}: the catalogue (models/ and instances/) is not installed beside the package")


def names(kind: str) -> list[str]:
    """The catalogue's names of a kind, which is one of `FOLDERS`; sorted."""
    return sorted(path.stem for path in (root() / FOLDERS[kind]).glob("*.toml"))


def locate(kind: str, reference: str, beside: Path | None = None) -> Path:
    """The file that ``reference`` names: a path (also relative to ``beside``) or a catalogue name.

    Raises `InputError` with the nearest catalogue names when there is none.
    """
    places = [Path(reference)] if beside is None else [beside / reference, Path(reference)]
    if looks_like_path(reference):
        for place in places:
            if place.exists():
                return place
        raise InputError(f"{kind} {reference!r}: no such file")
    found = root() / FOLDERS[kind] / f"{reference}.toml"
    if found.is_file():
        return found
    near = difflib.get_close_matches(reference, names(kind), n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(near)}?" if near else f"'planner list {kind}' shows the known ones"
    raise InputError(f"{kind} {reference!r}: not in the catalogue; {hint}")


def looks_like_path(reference: str) -> bool:
    """Whether a reference is meant as a file rather than as a catalogue name."""
    return reference.endswith((".toml", ".json")) or "/" in reference or "\\" in reference


def load_model(reference: str, beside: Path | None = None) -> Model:
    """The architecture that ``reference`` names: catalogue name, TOML file or Hugging Face ``config.json``."""
    from planner.schema.model import Model

    path = locate("model", reference, beside)
    if path.suffix == ".json":
        from planner.schema.huggingface import read_config

        return read_config(path)
    return _load(Model, path)


def load_hardware(reference: str, beside: Path | None = None) -> Hardware:
    """The accelerator that ``reference`` names."""
    from planner.schema.hardware import Hardware

    return _load(Hardware, locate("hardware", reference, beside))


def load_cluster(reference: str, beside: Path | None = None) -> Cluster:
    """The cluster that ``reference`` names."""
    from planner.schema.cluster import Cluster

    return _load(Cluster, locate("cluster", reference, beside))


def load_framework(reference: str, beside: Path | None = None) -> Framework:
    """The framework's profile that ``reference`` names."""
    from planner.schema.framework import Framework

    return _load(Framework, locate("framework", reference, beside))


def load_problem(reference: str) -> tuple[Problem, Path]:
    """The problem that ``reference`` names, and its file (other references in it are relative to its folder)."""
    from planner.schema.problem import Problem

    path = locate("problem", reference)
    return _load(Problem, path), path


def load_scenario(reference: str) -> Scenario:
    """The scenario that ``reference`` names."""
    from planner.schema.scenario import Scenario

    return _load(Scenario, locate("scenario", reference))


def load_device(reference: str, beside: Path | None = None) -> Device:
    """The accelerator of the frontier theory that ``reference`` names."""
    from planner.schema.frontier import Device

    return _load(Device, locate("device", reference, beside))


def _load(record: type[Record], path: Path) -> Record:
    return validate(record, read_toml(path), str(path))
