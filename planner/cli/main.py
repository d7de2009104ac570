"""The ``planner`` command: its sub-commands, one file each."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from planner import __version__
from planner.cli import (
    calibrate,
    compare,
    evaluate,
    explain,
    frontier,
    listing,
    memory_wall,
    repair,
    show,
    simulate,
    solve,
    sweep,
    validate,
)
from planner.cli.failures import guarded

app = typer.Typer(
    name="planner",
    help="Plan how to train large models: the best parallelisation for a model on a cluster, with a proof.\n\n"
    "Exit codes: 0 done, 1 no plan exists, 2 bad input, 3 stopped by a limit, 70 internal error, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: starts in half the time, and reads well in a pipe
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("solve")(solve.solve)
app.command("frontier")(frontier.frontier)
app.command("sweep")(sweep.sweep)
app.command("explain")(explain.explain)
app.command("whatif")(explain.whatif)
app.command("repair")(repair.repair)
app.command("compare")(compare.compare)
app.command("evaluate")(evaluate.evaluate_rows)
app.command("simulate")(simulate.simulate)
app.command("validate")(validate.validate_runs)
app.command("calibrate")(calibrate.calibrate)
app.command("memory-wall")(memory_wall.memory_wall)
app.command("show")(show.show)
app.command("list")(listing.list_catalogue)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"planner {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of every command; the help text is the application's."""


def main() -> None:
    """Run the command line and exit."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small: more threads only wait for one another
    sys.exit(guarded(lambda: app(prog_name="planner", standalone_mode=False)))
