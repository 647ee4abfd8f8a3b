"""A process that yields the processor to others: its niceness, which Linux may judge within a session alone.

With the kernel's automatic grouping (`kernel.sched_autogroup_enabled`, on in most distributions; sched(7)) a session's
processes share one weight, and niceness counts only among them. A child with a session of its own would compete with
the proxy as an equal, however nice it is, so the session's leader makes its whole session nice.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

AUTOGROUP = Path("/proc/self/autogroup")


def yield_to_others(niceness: int) -> None:
    """Adds `niceness` (0 to 19) to this process's, and gives it to the session that this process leads, if any.

    A process may always become nicer. Where the kernel groups nothing, niceness alone is what counts.
    """
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        # no such file without grouping; the kernel refuses changes that follow each other fast (EAGAIN)
        with suppress(OSError):
            AUTOGROUP.write_text(str(niceness))
