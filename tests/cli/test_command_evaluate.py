"""``planner evaluate``: rows in, the same rows with predictions out."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from conftest import Command

HEADER = "id,model,gpu,gpus_per_node,n_gpus,seq_len,global_batch,micro_batch,tp,pp,dp,zero_stage,precision,notes"
GOOD = "a,gpt3-175b,A100-80G,8,64,2048,64,1,8,8,1,1,bf16,one copy"
BAD = "b,gpt3-175b,A100-80G,8,many,2048,64,1,8,8,1,1,bf16,no number"


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_bad_row_keeps_its_place_and_says_why(planner: Command, tmp_path: Path) -> None:
    source, target = write(tmp_path / "rows.csv", GOOD, BAD, GOOD), tmp_path / "out.csv"
    ran = planner("evaluate", source, "-o", target)
    assert ran.returncode == 0, ran.stderr
    rows = read(target)
    assert [row["id"] for row in rows] == ["a", "b", "a"]
    assert rows[0]["notes"] == "one copy"
    assert float(rows[0]["pred_step_time_s"]) > 0
    assert rows[0] == rows[2]
    assert rows[0]["pred_error"] == ""
    assert rows[1]["pred_step_time_s"] == ""
    assert "n_gpus" in rows[1]["pred_error"]
    assert "3 rows: 2 evaluated, 1 failed" in ran.stdout
    assert "line 3: " in ran.stdout


def test_json_is_one_document(planner: Command, tmp_path: Path) -> None:
    ran = planner("evaluate", write(tmp_path / "rows.csv", GOOD, BAD), "--json")
    document = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (document["rows"], document["failed"]) == (2, 1)
    good, bad = document["predictions"]
    assert good["id"] == "a"
    assert good["pred_step_time_s"] > 0
    assert isinstance(good["pred_fits"], bool)
    assert good["pred_error"] == ""
    assert bad["pred_step_time_s"] is None
    assert bad["pred_fits"] is None
    assert "n_gpus" in bad["pred_error"]


def test_summary_reads_well_in_a_pipe(planner: Command, tmp_path: Path) -> None:
    ran = planner("evaluate", write(tmp_path / "rows.csv", *[GOOD] * 3, *[BAD] * 9))
    assert "\x1b" not in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert "and 4 more" in ran.stdout


def test_a_byte_order_mark_is_no_part_of_the_header(planner: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "rows.csv", GOOD)
    source.write_bytes(b"\xef\xbb\xbf" + source.read_bytes())
    assert json.loads(planner("evaluate", source, "--json").stdout)["failed"] == 0


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (HEADER + "\n", "no rows"),
        ("apples,pears\n1,2\n", "columns"),
        ("tp,tp\n1,2\n", "more than once"),
        (HEADER + "\n" + GOOD + ",one,too,many\n", "not valid CSV"),
        (HEADER + "\n" + GOOD + "\n" + GOOD + ",too many\n", "not valid CSV"),
        (HEADER + '\n"unclosed', "not valid CSV"),
    ],
)
def test_a_file_that_holds_no_rows(planner: Command, tmp_path: Path, content: str, word: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(content)
    ran = planner("evaluate", path)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1
    assert "rows.csv" in ran.stderr
    assert word in ran.stderr


def test_output_to_a_folder_is_refused_before_the_work(planner: Command, tmp_path: Path) -> None:
    ran = planner("evaluate", write(tmp_path / "rows.csv", GOOD), "-o", tmp_path)
    assert ran.returncode == 2
    assert "is a folder" in ran.stderr


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (f"{HEADER}\r\n{GOOD}\r\n\r\n{GOOD}", f"{GOOD},"),
        (f"{HEADER}\n{GOOD.replace('one copy', 'NA')}\n", "bf16,NA,"),
        (f"{HEADER}\n{GOOD},\n{GOOD}\n", f"{GOOD},"),  # a comma too many
        (f"{HEADER}\n{GOOD.replace('one copy', chr(34) + '5, a' + chr(34))}\n", '"5, a",'),
        (f"{HEADER},more\n{GOOD}\n{GOOD},x\n", f"{GOOD},,"),  # a cell is lacking
        (f"{HEADER}\n{GOOD.replace('one copy', chr(34) + 'two' + chr(10) + 'lines' + chr(34))}\n", '"two\nlines",'),
    ],
)
def test_cells_are_written_as_they_were(planner: Command, tmp_path: Path, content: str, kept: str) -> None:
    source, target = tmp_path / "rows.csv", tmp_path / "out.csv"
    source.write_bytes(content.encode())
    ran = planner("evaluate", source, "-o", target)
    assert ran.returncode == 0, ran.stderr
    assert kept in target.read_bytes().decode()
    given = list(csv.DictReader(content.splitlines(keepends=True)))
    for row, before in zip(read(target), given, strict=True):
        names = [name for name in before if name]
        assert list(row) == [*names, *list(row)[-7:]]
        assert [row[name] or None for name in names] == [before[name] or None for name in names]
        assert float(row["pred_step_time_s"]) > 0


def test_predictions_are_made_anew_in_their_own_columns(planner: Command, tmp_path: Path) -> None:
    source, target = write(tmp_path / "rows.csv", GOOD, BAD), tmp_path / "out.csv"
    planner("evaluate", source, "-o", target)
    once = target.read_text()
    assert planner("evaluate", target, "-o", target).returncode == 0
    assert target.read_text() == once
