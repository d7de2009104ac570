"""The boundary to HiGHS: everything that must not be trusted is checked here."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import highspy

if TYPE_CHECKING:
    from collections.abc import Iterator

_greeted = False


@contextmanager
def _stdout_discarded() -> Iterator[None]:
    """File descriptor 1 to nowhere: HiGHS 1.16 greets there when it is first constructed, before any option is set."""
    try:
        saved = os.dup(1)
    except OSError:  # standard output is closed: nobody can read a greeting
        yield
        return
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


def quiet_highs() -> highspy.Highs:
    """A silent, single-threaded HiGHS object."""
    global _greeted
    if _greeted:
        model = highspy.Highs()
    else:
        import sys

        sys.stdout.flush()
        with _stdout_discarded():
            model = highspy.Highs()
        _greeted = True
    for option, value in (("output_flag", False), ("threads", 1), ("parallel", "off")):
        if model.setOptionValue(option, value) != highspy.HighsStatus.kOk:
            raise RuntimeError(f"HiGHS refused option {option}={value}")
    return model
