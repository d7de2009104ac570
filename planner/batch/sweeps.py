"""Finding a sweep: a file, or one of the catalogue's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import catalog
from planner.batch.grid import read_sweep
from planner.errors import InputError
from planner.schema.base import validate
from planner.schema.overrides import parse_override
from planner.schema.sweep import Sweep

if TYPE_CHECKING:
    import pandas


def find_sweep(reference: str, overrides: Sequence[str] = ()) -> tuple[Path, Sweep]:
    """The sweep that ``reference`` names and its file, with ``key=value`` overrides of all its problems.

    Raises `InputError` with every problem found.
    """
    path = catalog.locate("sweep", reference)
    return path, with_overrides(read_sweep(path), overrides)


def run_sweep(
    reference: str | Mapping[str, Any], overrides: Sequence[str], store: str, jobs: int, dask: str | None
) -> pandas.DataFrame:
    """Solve a sweep's points with local processes or a Dask cluster, and give its table."""
    from planner.batch.engine import Engine
    from planner.batch.store import Store
    from planner.batch.table import frame
    from planner.batch.workers import DaskWorkers, LocalWorkers

    if isinstance(reference, str):
        path, sweep = find_sweep(reference, overrides)
        folder: Path | None = path.parent
    else:
        sweep, folder = with_overrides(validate(Sweep, dict(reference), "sweep"), overrides), None
    with Store(Path(store)) as kept:
        engine = Engine(sweep, kept, lambda: DaskWorkers(dask) if dask else LocalWorkers(jobs), folder=folder)
        return frame(sweep, engine.run(), kept)


def with_overrides(sweep: Sweep, overrides: Sequence[str]) -> Sweep:
    """The sweep with settings of all its problems; an axis or a case that sets the same key is an error."""
    settings = dict(parse_override(override) for override in overrides)
    taken = [key for key in settings if key in sweep.axes or any(key in case.set for case in sweep.cases)]
    if taken:
        raise InputError([f"--set {key}: is an axis or in a case of the sweep" for key in taken])
    return sweep.model_copy(update={"common": sweep.common | settings}) if settings else sweep
