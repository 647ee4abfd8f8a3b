"""Lists that follow a capture: what was there last, and then what comes, until somebody ends the command."""

from __future__ import annotations

import errno
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import TypeVar

from recorder.inspect.picking import Picking
from recorder.reading.following import Followed

Item = TypeVar("Item")
Line = TypeVar("Line")
# from one look to the next: short beside the two seconds in which traffic is shown, long beside the look itself
LOOK_SECONDS = 0.1


def followed(source: Followed[Item], limits: Picking, lines: Callable[[Item], Iterable[Line]]) -> Iterator[Line]:
    """The lines of items as they come: with `--last N` the last N that are there first; with `--limit N` N at most.

    Errors: BrokenPipeError once nobody reads the output any more; those of `Followed.look`.
    """
    last = limits.limit if limits.from_end else 0
    left = None if limits.from_end else limits.limit
    with closing(source):
        before: deque[Line] = deque(maxlen=last)
        while left != 0:
            for item, is_new in source.look():
                if not is_new:
                    before.extend(lines(item))
                    continue
                yield from _taken(before)
                shown = [*islice(lines(item), left)]
                yield from shown
                left = None if left is None else left - len(shown)
                if left == 0:
                    return
            if source.has_caught_up:
                yield from _taken(before)
            _check_output()
            time.sleep(LOOK_SECONDS)


def _taken(before: deque[Line]) -> Iterator[Line]:
    while before:
        yield before.popleft()


def _check_output() -> None:
    """Raises BrokenPipeError if the reader of standard output has gone: nothing may be written for hours."""
    try:
        output = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        return
    poll = select.poll()
    # errors are reported unasked
    poll.register(output, 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
