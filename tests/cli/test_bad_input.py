"""Everything that can be wrong with the input gives exit code 2 and one clear line for each problem, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import TINY, Command, Ran


def assert_refused(ran: Ran, *words: str, lines: int = 1) -> None:
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    found = ran.stderr.splitlines()
    assert len(found) == lines
    assert all(line.startswith("error: ") for line in found)
    for word in words:
        assert word in ran.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('model = "gpt2"\n', "", ["tiny.toml", "model", "missing"]),
        ("gpus = 8", 'gpus = "eight"', ["tiny.toml", "training.gpus"]),
        ("gpus = 8", "gpus = -8", ["tiny.toml", "training.gpus", "-8"]),
        ("gpus = 8", "gpus = 8.0", ["tiny.toml", "training.gpus"]),
        ("gpus = 8", "gpus = 16", ["tiny.toml", "training.gpus", "16", "8 accelerators"]),
        ("global_batch = 64", "global_batch = 0", ["training.global_batch"]),
        ("global_batch = 64", "global_batch = { min = 8 }", ["training.global_batch.max", "missing"]),
        ("sequence_length = 1024", "sequence_length = nan", ["training.sequence_length"]),
        ("sequence_length = 1024", "sequence_length = 1024\ntokens = nan", ["training.tokens"]),
        ("sequence_length = 1024", "sequence_length = 1024\ntokens = inf", ["training.tokens"]),
        ('"gpt2"', '"gpt99"', ["model 'gpt99'", "not in the catalogue"]),
        ('"dgx-h100-box"', '"no-such/cluster.toml"', ["cluster", "no such file"]),
        ("cp = 1", "cp = 1\ntp = 7", ["decisions.tp", "7", "heads"]),
        ("cp = 1", "cp = 1\npp = { min = 8, max = 4 }", ["decisions.pp", "contradictory", "8", "4"]),
        ("cp = 1", "cp = 1\npp = 9", ["decisions.pp", "9"]),
        ("cp = 1", 'cp = 1\nschedule = "dualpipe"', ["decisions.schedule", "dualpipe"]),
        ("cp = 1", 'cp = 1\nschedule = "interleaved"\nvp = 13', ["decisions.vp", "13"]),
        ("zero = [0, 1]", "zero = []", ["decisions.zero"]),
        ("zero = [0, 1]", "zero = 4", ["decisions.zero", "4"]),
        ("zero = [0, 1]", "zeros = 1", ["decisions.zeros", "not a known key"]),
        ("schema = 1", "schema = 2", ["schema", "2"]),
        ("schema = 1", "schema == 1", ["not valid TOML"]),
    ],
)
def test_a_wrong_problem_file(planner: Command, tmp_path: Path, old: str, new: str, words: list[str]) -> None:
    path = tmp_path / "tiny.toml"
    assert old in TINY
    path.write_text(TINY.replace(old, new))
    assert_refused(planner("solve", path), *words)


def test_all_problems_of_a_file_are_reported_at_once(planner: Command, tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY.replace("gpus = 8", "gpus = -8").replace("cp = 1", "cp = 'x'").replace('name = "tiny"', ""))
    ran = planner("solve", path)
    assert ran.returncode == 2
    for key in ("name", "training.gpus", "decisions.cp"):
        assert key in ran.stderr


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("bogus=1", ["bogus", "not a known key"]),
        ("tp", ["key=value"]),
        ("=3", ["key=value"]),
        ("tp=7", ["decisions.tp", "7"]),
        ("training.bogus=1", ["training.bogus", "not a known key"]),
        ("gpus=nan", ["training.gpus"]),
    ],
)
def test_a_wrong_override(planner: Command, tiny: Path, setting: str, words: list[str]) -> None:
    assert_refused(planner("solve", tiny, "--set", setting), *words)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--gap", "0"], "--gap"),
        (["--gap", "1"], "--gap"),
        (["--gap", "nan"], "--gap"),
        (["--gap", "much"], "--gap"),
        (["--time-limit", "-1"], "--time-limit"),
        (["--time-limit", "nan"], "--time-limit"),
        (["--top", "0"], "--top"),
        (["--top", "1.5"], "--top"),
        (["--seed", "-1"], "--seed"),
        (["--solver", "magic"], "--solver"),
        (["--bogus"], "--bogus"),
        (["-o", "."], "-o"),
        (["-o", "missing/plan.json"], "missing"),
    ],
)
def test_a_wrong_option(planner: Command, tiny: Path, options: list[str], word: str) -> None:
    assert_refused(planner("solve", tiny, *options), word)


def test_several_wrong_options_are_reported_at_once(planner: Command, tiny: Path) -> None:
    assert_refused(planner("solve", tiny, "--gap", "2", "--top", "-3"), "--gap", "--top", lines=2)


@pytest.mark.parametrize("command", ["solve", "show", "evaluate"])
def test_what_is_no_file_at_all(planner: Command, tmp_path: Path, command: str) -> None:
    assert_refused(planner(command, tmp_path / "absent.toml"), "absent.toml")
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    assert_refused(planner(command, folder), "is a folder")


@pytest.mark.parametrize("command", ["solve", "show", "evaluate"])
def test_a_binary_file(planner: Command, tmp_path: Path, command: str) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\x7fELF\x00\xff\xfe" * 100)
    assert_refused(planner(command, path), "binary.toml", "not a text file")


@pytest.mark.parametrize("command", ["solve", "show", "evaluate"])
def test_an_enormous_file_is_not_read(planner: Command, tmp_path: Path, command: str) -> None:
    path = tmp_path / "huge.toml"
    with path.open("wb") as stream:
        stream.truncate(3 * 10**9)  # sparse: takes no space
    assert_refused(planner(command, path), "huge.toml", "large")


@pytest.mark.parametrize("command", ["solve", "show"])
def test_an_empty_file(planner: Command, tmp_path: Path, command: str) -> None:
    path = tmp_path / "empty.toml"
    path.touch()
    ran = planner(command, path)
    assert ran.returncode == 2
    assert "empty.toml" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_list_of_an_unknown_kind(planner: Command) -> None:
    assert_refused(planner("list", "gpus"), "'gpus'", "hardware")


def test_show_of_an_unknown_kind(planner: Command) -> None:
    assert_refused(planner("show", "gpt2", "--kind", "gpus"), "'gpus'")
