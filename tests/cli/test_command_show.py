"""``planner list`` and ``planner show``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Command

from planner import catalog


def test_list_names_everything_in_the_catalogue(planner: Command) -> None:
    ran = planner("list", "--json")
    assert ran.returncode == 0
    assert json.loads(ran.stdout) == {kind: catalog.names(kind) for kind in catalog.FOLDERS}


@pytest.mark.parametrize("kind", ["problem", "problems"])
def test_list_of_one_kind(planner: Command, kind: str) -> None:
    assert list(json.loads(planner("list", kind, "--json").stdout)) == ["problem"]


def test_list_fits_a_terminal_of_80_columns(planner: Command) -> None:
    ran = planner("list")
    assert ran.returncode == 0
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert "\x1b" not in ran.stdout


@pytest.mark.parametrize(
    ("name", "kind", "word"),
    [
        ("deepseek-v3", "model", "671,026,419,200"),
        ("h100-sxm", "hardware", "3,350"),
        ("a100-4k", "cluster", "4,096"),
        ("gpt3-175b-1k-a100", "problem", "1,536"),
    ],
)
def test_show_of_every_kind(planner: Command, name: str, kind: str, word: str) -> None:
    text, document = planner("show", name), planner("show", name, "--json")
    assert text.returncode == document.returncode == 0
    assert word in text.stdout
    assert "\x1b" not in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 80
    assert json.loads(document.stdout)["kind"] == kind


def test_show_a_model_adds_up(planner: Command) -> None:
    counts = json.loads(planner("show", "deepseek-v3", "--json").stdout)["parameters"]
    assert sum(counts["by_part"].values()) == counts["total"]
    assert counts["active"] < counts["total"]


@pytest.mark.parametrize(
    "path", ["models/gpt2.toml", "instances/hardware/v100-sxm2-32.toml", "instances/clusters/h100-64.toml"]
)
def test_show_a_file_tells_its_kind_by_its_keys(planner: Command, path: str) -> None:
    assert planner("show", catalog.root() / path).returncode == 0


def test_show_a_problem_file(planner: Command, tiny: Path) -> None:
    document = json.loads(planner("show", tiny, "--json").stdout)
    assert document["space"]["tensor"]["tp"] == [1, 2, 4]
    assert document["accelerators"] == 8


def test_show_an_unknown_name_suggests_one(planner: Command) -> None:
    ran = planner("show", "deepseek-v33")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "deepseek-v3" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
