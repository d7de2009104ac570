"""What a command ends with when it fails: one line on stderr for each problem, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from planner.errors import InputError, PlannerError

if TYPE_CHECKING:
    from planner.outcome import Outcome

SOLVED, INFEASIBLE, BAD_INPUT, STOPPED, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 70, 130

#: Set to see the traceback of an internal error.
DEBUG = "PLANNER_DEBUG"


def exit_code(outcome: Outcome) -> int:
    """The exit code of a solver's answer."""
    if outcome.stopped == "interrupted":
        return INTERRUPTED
    return {"optimal": SOLVED, "infeasible": INFEASIBLE}.get(str(outcome.status), STOPPED)


def guarded(command: Callable[[], Any]) -> int:
    """Run ``command`` and return the exit code; no exception gets through."""
    try:
        code = command()
        return code if isinstance(code, int) else SOLVED
    except InputError as error:
        return _failed(BAD_INPUT, *error.problems)
    except PlannerError as error:
        return _internal(f"{type(error).__name__}: {error}")
    except (KeyboardInterrupt, typer.Abort):
        return _failed(INTERRUPTED, "interrupted")
    except OSError as error:  # standard output cannot be written; files that can't be read or written are input errors
        return _failed(INTERNAL, f"input or output failed: {error.strerror or error}")
    except MemoryError:
        return _failed(INTERNAL, "out of memory")
    except Exception as error:
        message = getattr(error, "format_message", None)  # click's, of whichever click typer brings
        if message is not None:
            return _usage(error, message())
        return _internal(f"{type(error).__name__}: {error}")


def _usage(error: Any, message: str) -> int:
    if not message or not message.strip() or type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return BAD_INPUT
    return _failed(BAD_INPUT, " ".join(message.split()))


def _internal(message: str) -> int:
    if os.environ.get(DEBUG):
        import traceback

        traceback.print_exc()
    return _failed(INTERNAL, f"internal error: {' '.join(message.split())} ({DEBUG}=1 shows where)")


def _failed(code: int, *problems: str) -> int:
    for problem in problems:
        line = problem.replace("\n", " ").replace("\r", " ")
        print(f"error: {line}", file=sys.stderr)
    return code
