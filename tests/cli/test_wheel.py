"""What is installed from the wheel finds the same catalogue as a checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner import catalog

CHECKOUT = Path(__file__).resolve().parents[2]
REPORT = """\
import json
from planner import catalog
print(json.dumps({"root": str(catalog.root()), "names": {kind: catalog.names(kind) for kind in catalog.FOLDERS}}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what the wheel installs; the dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder / "dist"]
    subprocess.run(build, cwd=CHECKOUT, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder / "site"]
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    return folder / "site"


def python(installed: Path, *arguments: str) -> str:
    """Run Python with the installed package in front of the checkout, from elsewhere."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=installed.parent, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_the_wheel_holds_the_whole_catalogue(installed: Path) -> None:
    found = json.loads(python(installed, "-c", REPORT))
    assert Path(found["root"]).is_relative_to(installed)
    assert found["names"] == {kind: catalog.names(kind) for kind in catalog.FOLDERS}


def test_the_wheel_holds_what_evaluate_reads(installed: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("model,gpu,n_gpus,global_batch,micro_batch,seq_len,tp,pp\nllama3-8b,H100-80G,8,64,1,8192,2,1\n")
    found = json.loads(python(installed, "-m", "planner", "evaluate", str(rows), "--json"))
    assert found["failed"] == 0
    assert found["predictions"][0]["pred_step_time_s"] > 0


def test_the_wheel_is_typed_and_has_the_command(installed: Path) -> None:
    assert (installed / "planner" / "py.typed").is_file()
    assert (installed / "bin" / "planner").is_file()
