"""A process that yields: its own niceness, and that of the session which it leads."""

from __future__ import annotations

import subprocess
import sys

from proxy.niceness import AUTOGROUP
from tests.brokers.waiting import wait_for

CHILD = """
import os
from proxy.niceness import AUTOGROUP, yield_to_others
before = os.nice(0)
yield_to_others(3)
# 19 is the most: the tests may be nice themselves
print(os.nice(0) - min(before, 16))
if AUTOGROUP.exists():
    print(AUTOGROUP.read_text(), end="")
"""
YIELDS = (sys.executable, "-c", CHILD)
# a process that starts the command that it is given, in its own session
STARTS = (sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))")


def told_in_a_new_session(*command: str) -> tuple[int, list[str]]:
    """What CHILD has added to its niceness, and its session's, as in ["nice", "3"], or nothing where none is grouped.

    The session is new, because processes that never left the machine's first one are told nothing of it.
    """
    done = subprocess.run(command, start_new_session=True, capture_output=True, text=True, check=True)
    added, _, session = done.stdout.partition("\n")
    return int(added), session.split()[-2:]


def of_session(niceness: int) -> list[str]:
    return ["nice", str(niceness)] if AUTOGROUP.exists() else []


def test_a_session_s_leader_makes_its_session_nice() -> None:
    # whoever is not root is refused within a tenth of a second of any other change on the machine
    wait_for(
        lambda: told_in_a_new_session(*YIELDS) == (3, of_session(3)),
        "the kernel to take a session's niceness",
        seconds=30,
    )


def test_a_child_in_another_s_session_leaves_that_session_as_it_is() -> None:
    assert told_in_a_new_session(*STARTS, *YIELDS) == (3, of_session(0))
