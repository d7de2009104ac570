"""Plan how to train large models: the best parallelisation, with a proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas

    from planner.result import Plan

__all__ = ["__version__", "evaluate", "solve", "sweep"]


def solve(problem: str, *overrides: str, **options: Any) -> Plan | None:
    """The best plan of a problem with its proof; None if no plan exists or none was found in time.

    ``problem`` is a catalogue name or a TOML file, ``overrides`` are ``key=value`` as for ``--set``; ``options`` go to
    `planner.solving.optimise` (``gap``, ``time_limit`` in seconds, ``top``, ``solver``, ``seed``, ``presolve``).
    Raises `planner.errors.InputError` with every problem of the input.
    """
    from planner.instance import load
    from planner.result import Plan
    from planner.solving import optimise

    instance = load(problem, list(overrides))
    return Plan.of(instance, optimise(instance, **options), options.get("seed"))


def sweep(
    reference: str | Mapping[str, Any], *overrides: str, store: str = "sweep.results.sqlite", jobs: int = 2,
    dask: str | None = None,
) -> pandas.DataFrame:  # fmt: skip
    """The table of a sweep, a row for each point: of a file, a catalogue name, or a sweep's document.

    Answers are kept in ``store`` and found again. ``jobs`` are processes on this machine, ``dask`` the address of a cluster
    (``tcp://host:port``) or ``local:N`` instead. A script that calls this guards its main part by
    ``if __name__ == "__main__"``, since workers import it. Raises `planner.errors.InputError`.
    """
    from planner.batch.sweeps import run_sweep

    return run_sweep(reference, overrides, store, jobs, dask)


def evaluate(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The rows of ``frame``, one given plan each, with predicted time, throughput, MFU and memory.

    The columns are those of ``instances/published/README.md``; a row that cannot be priced says why in ``pred_error``.
    """
    from planner.evaluation import evaluate as price

    return price(frame)
