"""Runs a command and writes what it took to a file: ``launcher.py REPORT COMMAND...``.

A process of its own, and small: Linux counts the memory of whoever started a process in that process' peak.
"""

import os
import sys
import time


def main() -> int:
    report, *command = sys.argv[1:]
    started = time.perf_counter()
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - started
    with open(report, "w") as file:
        file.write(f"{wall} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}")
    return max(0, os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    sys.exit(main())
