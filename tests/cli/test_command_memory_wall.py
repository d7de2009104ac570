"""``planner memory-wall`` as a user runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from conftest import Command

TABLES = ["transformers", "vision", "memory", "accelerators", "figures", "trends", "claims", "errors"]


def test_all_tables_are_printed_with_what_is_wrong_in_the_source(planner: Command) -> None:
    ran = planner("memory-wall")
    assert (ran.returncode, ran.stderr) == (0, "")
    for text in ("GoogLeNet", "GPT-3", "413.1", "holds if", "does not hold", "repeats GPT-2's row", "in 20"):
        assert text in ran.stdout
    assert all(len(line) <= 80 for line in ran.stdout.splitlines())


def test_data_as_json(planner: Command) -> None:
    ran = planner("memory-wall", "trends", "claims", "--json")
    document = json.loads(ran.stdout)
    assert list(document) == ["trends", "claims"]
    rates = {row["series"]: row["two_years"] for row in document["trends"]["rows"]}
    assert round(rates["DRAM bandwidth"], 3) == 1.591
    assert {row["verdict"] for row in document["claims"]["rows"]} == {"holds", "holds if", "does not hold"}
    assert all(row["source"] and row["condition"] for row in document["claims"]["rows"])


def test_data_as_csv_files(planner: Command, tmp_path: Path) -> None:
    ran = planner("memory-wall", "-o", "deep/data")
    assert ran.returncode == 0
    folder = tmp_path / "deep" / "data"
    assert sorted(path.stem for path in folder.iterdir()) == sorted(TABLES)
    with (folder / "memory.csv").open(newline="") as stream:
        rows = {row["model"]: row for row in csv.DictReader(stream)}
    assert rows["AlexNet"]["total_gib_verdict"] == "source error"
    assert abs(float(rows["BERT Large"]["activations_gib"]) / 14.38 - 1) < 0.025


def test_figures_are_drawn_as_pictures_and_vectors(planner: Command, tmp_path: Path) -> None:
    ran = planner("memory-wall", "trends", "--plots", "figures")
    assert ran.returncode == 0
    files = sorted((tmp_path / "figures").iterdir())
    assert len(files) == 8
    assert all(path.stat().st_size > 10_000 for path in files)
    assert {path.read_bytes()[:4] for path in files if path.suffix == ".png"} == {b"\x89PNG"}
    assert all(b"<svg" in path.read_bytes() for path in files if path.suffix == ".svg")


def test_models_are_held_against_accelerators_of_choice(planner: Command) -> None:
    ran = planner("memory-wall", "accelerators", "--hardware", "b200-sxm", "--json")
    rows = json.loads(ran.stdout)["accelerators"]["rows"]
    gpt3 = next(row for row in rows if row["model"] == "GPT-3")
    assert abs(gpt3["b200-sxm"] - gpt3["need_gib"] / 178.3) < 0.1


def test_bad_input_is_one_clear_line(planner: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, words in [
        (["model"], "table 'model': must be one of transformers"),
        (["accelerators", "--hardware", "h100-sxn"], "did you mean h100-sxm"),
        (["-o", "file"], "-o file: is a file, not a folder"),
        (["--plots", "file"], "--plots file: is a file, not a folder"),
        (["trends", "-o", "file/deep"], "-o file/deep: cannot be"),
        (["trends", "--plots", "file/deep"], "--plots file/deep: cannot be written"),
    ]:
        ran = planner("memory-wall", *arguments)
        assert ran.returncode == 2, arguments
        assert words in ran.stderr
        assert len(ran.stderr.splitlines()) == 1
