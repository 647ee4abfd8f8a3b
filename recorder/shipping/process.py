"""The process that ships a capture beside a proxy, which starts it and keeps it running.

    python -m recorder.shipping.process FOLDER URL --proxy PID

One process at a time ships a capture: the others wait for its lock, so that a proxy that shares the folder takes over.
It ends after its proxy, once the compactors have published the rest and that is shipped, or once the store fails
several times then: what is left is shipped by the next proxy, or by `kafka-wiretap ship`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from proxy.files import Folder
from proxy.niceness import yield_to_others
from proxy.standard_error import queue_standard_error
from proxy.terminal import harmless
from recorder.capture.lock import Lock
from recorder.capture.session import may_publish, sessions
from recorder.capture.shipped import SHIP_FOLDER, SHIP_LOCK

# the traffic is more urgent, and so is the compaction
NICENESS = 15
# seconds between two tries for the lock
LOCK_SECONDS = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The process that the proxy starts. Exit code 0: all is shipped, or another process ships; 1: not."""
    parser = argparse.ArgumentParser(prog="recorder.shipping.process", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the capture")
    parser.add_argument("url", help="the folder of the bucket")
    parser.add_argument("--proxy", type=int, required=True, help="the process that started this one")
    parser.add_argument("--endpoint")
    parser.add_argument("--region")
    parser.add_argument("--credentials", type=Path)
    options = parser.parse_args(arguments)
    # Ctrl-C and SIGHUP are for the proxy
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    yield_to_others(NICENESS)

    def is_over() -> bool:
        if os.getppid() == options.proxy:
            return False
        return not any(may_publish(options.folder, session) for session in sessions(options.folder))

    try:
        with Folder.at(options.folder) as capture, capture.make_folder(SHIP_FOLDER) as ship:
            lock = _wait_for_lock(ship, is_over)
            return 0 if lock is None else _follow(options, ship, is_over)
    except OSError as error:
        _print_line(f"nothing is shipped: {error.filename or options.folder}: {error.strerror or error}")
        return 1


def _wait_for_lock(ship: Folder, is_over: Callable[[], bool]) -> Lock | None:
    """The lock for shipping; None if it is over, and another process has it."""
    while (lock := Lock.take(ship, SHIP_LOCK)) is None and not is_over():
        time.sleep(LOCK_SECONDS)
    return lock


def _follow(options: argparse.Namespace, ship: Folder, is_over: Callable[[], bool]) -> int:
    # the SDK takes 50 MB: a process that waits for the lock does without
    from recorder.shipping.shipper import Shipper
    from recorder.shipping.store import Store, StoreError

    where = {"endpoint": options.endpoint, "region": options.region, "credentials": options.credentials}
    try:
        shipper = Shipper(options.folder, ship, Store(options.url, **where), options.url, _print_line)
    except StoreError as error:
        _print_line(f"nothing is shipped ({error.cause}): {error}")
        return 1
    try:
        return int(not shipper.follow(is_over))
    finally:
        shipper.close()


def _print_line(line: str) -> None:
    """Prints to standard error, which is the proxy's."""
    print(f"shipper: {harmless(line)}", file=sys.stderr)


if __name__ == "__main__":
    queue_standard_error()
    sys.exit(main())
