"""Runs Calculon from its checkout in a process of its own: ``search ARGUMENTS...``, ``price APP SYSTEM < EXECUTIONS``.

Calculon logs about a thousand debug records for each execution to a logger that nobody reads; here they are switched
off, which makes its search eight times faster and changes nothing else. ``psutil``, which it only asks for the number
of cores, is replaced where it is not installed.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> None:
    checkout, verb, *arguments = sys.argv[1:]
    sys.path.insert(0, checkout)
    logging.disable(logging.DEBUG)
    multiprocessing.set_start_method("fork")  # the workers inherit the switch
    if find_spec("psutil") is None:
        stand_in: Any = ModuleType("psutil")
        stand_in.cpu_count = lambda logical=True: os.cpu_count()
        sys.modules["psutil"] = stand_in
    if verb == "search":
        script = str(Path(checkout) / "bin" / "calculon")
        sys.argv = [script, "llm-optimal-execution", *arguments]
        runpy.run_path(script, run_name="__main__")
    else:
        json.dump(price(*arguments), sys.stdout)


def price(application: str, system: str) -> list[dict[str, Any]]:
    """The statistics, or the refusal, of each execution of the list on standard input."""
    import calculon  # type: ignore[import-not-found]
    from calculon.llm import Llm, System  # type: ignore[import-not-found]

    app = Llm.Application(calculon.io.read_json_file(application))
    syst = System(calculon.io.read_json_file(system))
    found: list[dict[str, Any]] = []
    for execution in json.load(sys.stdin):
        try:
            model = Llm(app, logging.Logger("sub"))
            model.compile(syst, Llm.Execution.from_json(execution))
            model.run(syst)
            found.append({"execution": execution, "stats": model.get_stats_json(False)})
        except (Llm.Error, AssertionError) as error:
            found.append({"execution": execution, "error": str(error) or type(error).__name__})
    return found


if __name__ == "__main__":
    main()
