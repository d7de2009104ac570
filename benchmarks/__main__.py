"""The command: runs benchmarks one after the other and prints their tables."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.registry import BENCHMARKS, Options


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure every figure that is claimed.")
    parser.add_argument(
        "--only", action="append", metavar="NAME", choices=list(BENCHMARKS), help=f"one of {', '.join(BENCHMARKS)}"
    )
    parser.add_argument("--all", action="store_true", help="the slow ones too (minutes)")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and stop")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of each command (default 3)")
    parser.add_argument("--samples", type=int, default=2000, metavar="N", help="random instances of the oracle")
    parser.add_argument("--calculon", type=Path, metavar="PATH", help="a checkout of calculon-ai/calculon")
    parser.add_argument(
        "--calculon-saved",
        type=Path,
        metavar="FILE",
        help="keep its search's figures here, and use them if they are there",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    if arguments.list:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name:12} {benchmark.about}{' (slow)' if benchmark.slow else ''}")
        return 0
    if arguments.repeat < 1 or arguments.samples < 1:
        parser.error("--repeat and --samples must be 1 or more")
    options = Options(arguments.repeat, arguments.samples, arguments.calculon, arguments.calculon_saved)
    names = arguments.only or [name for name, one in BENCHMARKS.items() if arguments.all or not one.slow]
    if "calculon" in names and arguments.calculon is None:
        if arguments.only:
            parser.error("calculon needs --calculon PATH")
        names.remove("calculon")
    measured: dict[str, Any] = {}
    document = {"machine": machine(), "benchmarks": measured}
    if not arguments.json:
        print("".join(f"{key}: {value}\n" for key, value in machine().items()))
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        started = time.perf_counter()
        tables = BENCHMARKS[name].run(options)
        measured[name] = {
            "seconds": time.perf_counter() - started,
            "tables": [table.to_json() for table in tables],
        }
        if not arguments.json:
            print("\n".join(table.text() for table in tables), flush=True)
    if arguments.json:
        print(json.dumps(document, indent=2))
    return 0


def machine() -> dict[str, str]:
    """What the figures hold for."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("planner", "highspy", "pyomo", "numpy", "pandas"))
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "load": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        "python": platform.python_version(),
        "packages": packages,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
