"""A process that yields: its own niceness, and that of the session which it leads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proxy.niceness import AUTOGROUP

CHILD = """
import os
from pathlib import Path
from proxy.niceness import yield_to_others
before = os.nice(0)
yield_to_others(3)
# 19 is the most: the tests may be nice themselves
print(os.nice(0) - min(before, 16))
print(Path("/proc/self/autogroup").read_text(), end="")
"""

grouped = pytest.mark.skipif(
    not AUTOGROUP.exists() or Path("/proc/sys/kernel/sched_autogroup_enabled").read_text() != "1\n",
    reason="this kernel groups no sessions",
)


def told_by_child(*, own_session: bool) -> tuple[int, str]:
    """What a child adds to its niceness, and what the kernel tells of its session afterwards.

    That is "/autogroup-12 nice 3\n", or nothing for processes that never left the machine's first session.
    """
    done = subprocess.run(
        [sys.executable, "-c", CHILD], start_new_session=own_session, capture_output=True, text=True, check=True
    )
    added, _, session = done.stdout.partition("\n")
    return int(added), session


@grouped
def test_a_session_s_leader_makes_its_session_nice() -> None:
    added, session = told_by_child(own_session=True)
    assert (added, session.split()[-2:]) == (3, ["nice", "3"])


@grouped
def test_a_child_in_another_s_session_leaves_that_session_as_it_is() -> None:
    before = AUTOGROUP.read_text()
    assert told_by_child(own_session=False) == (3, before)
