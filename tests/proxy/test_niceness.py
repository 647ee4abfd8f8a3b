"""A process that yields: its own niceness, and that of the session which it leads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import os
from pathlib import Path
from proxy.niceness import yield_to_others
before = os.nice(0)
yield_to_others(3)
# 19 is the most: the tests may be nice themselves
print(os.nice(0) - min(before, 16))
print(Path("/proc/self/autogroup").read_text().split()[-1])
"""

grouped = pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists() or Path("/proc/sys/kernel/sched_autogroup_enabled").read_text() != "1\n",
    reason="this kernel groups no sessions",
)


def told_by_child(*, own_session: bool) -> tuple[int, int]:
    """What a child adds to its niceness, and the niceness of its session afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD], start_new_session=own_session, capture_output=True, text=True, check=True
    )
    added, session = done.stdout.split()
    return int(added), int(session)


@grouped
def test_a_session_s_leader_makes_its_session_nice() -> None:
    assert told_by_child(own_session=True) == (3, 3)


@grouped
def test_a_child_in_another_s_session_leaves_that_session_as_it_is() -> None:
    before = int(Path("/proc/self/autogroup").read_text().split()[-1])
    assert told_by_child(own_session=False) == (3, before)
