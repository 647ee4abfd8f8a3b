"""A capture's sessions compacted: one that a proxy writes, followed to its end, or all that earlier proxies have left.

    python -m recorder.capture.compactor FOLDER --session S --follow

A process of its own, started by the proxy. It ends when the session has; if the proxy dies it finishes what is written.
Meanwhile it takes over the sessions that earlier proxies left, when there is nothing else to do. Each session is for
itself: what is wrong with one keeps no other from being compacted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from proxy.files import Folder
from proxy.standard_error import queue_standard_error
from proxy.terminal import harmless
from recorder.capture import session as sessions
from recorder.capture.compaction import Compaction
from recorder.capture.lock import Lock, take_over
from recorder.capture.progress import check_states
from recorder.capture.segments import SegmentReader, segments
from recorder.capture.session import FolderError
from recorder.capture.spool import DamagedSegmentError, UnknownSpoolError
from recorder.capture.storage import Steps, no_steps

# how often a compactor that has caught up looks for more
IDLE_SECONDS = 0.05
# the traffic goes before its recording: what the log holds can wait
NICENESS = 10


@dataclass(frozen=True, slots=True)
class Summary:
    """What `compact` did.

    `busy`: sessions that another process is making columns of; `live`: still being written; `others`: another user's.
    `failed`: those that are left as they are, with the reason; `damaged`: what is lost of those that were compacted;
    `stuck`: folders of finished sessions that can't be removed, with the reason.
    """

    sessions: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    frames: int = 0
    bytes: int = 0
    others: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    stuck: tuple[tuple[str, str], ...] = ()


class Compacted(NamedTuple):
    """What became of one session. `finished`: False while its writer lives, None where another makes columns of it.

    `gone`: parts of its log that were lost, as people call them.
    """

    finished: bool | None
    frames: int = 0
    bytes: int = 0
    gone: tuple[str, ...] = ()


def compact_session(
    folder: Path, session: str, *, steps: Steps = no_steps, idle: Callable[[], None] | None = None
) -> Compacted:
    """Compacts one session.

    Errors: FolderError where the capture can't be written, UnknownSpoolError for another format's spool,
    StrangeFileError where something in it is not what this program makes: nothing is changed then.
    """
    try:
        opened = sessions.open_session(folder, session)
    except FileNotFoundError:
        # finished and removed by another in the meantime
        return Compacted(True)
    with opened:
        sessions.check_ours(folder, opened)
        _check_known(opened)
        sessions.check_can_finish(folder, opened)
        lock = _take_over(folder, opened)
        if lock is None:
            # it may also have been finished and removed while its lock was waited for
            return Compacted(None if sessions.is_there(folder, session) else True)
        compaction = Compaction(folder, opened, steps=steps, idle=idle)
        try:
            finished = compaction.run()
        finally:
            compaction.close()
            lock.release()
        return Compacted(finished, compaction.frames, compaction.bytes, tuple(compaction.gone))


def _check_known(session: Folder) -> None:
    """Raises UnknownSpoolError for a session that this program must not finish, before it changes anything."""
    # another compactor may be removing what is looked at
    with suppress(FileNotFoundError):
        check_states(session)
    for number in segments(session):
        with suppress(DamagedSegmentError, FileNotFoundError):
            SegmentReader(session, number).close()


def _take_over(folder: Path, session: Folder) -> Lock | None:
    try:
        return take_over(session)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FolderError(
            f"the capture {folder} has a spool that isn't compacted, and can't be written: {error.strerror}"
        ) from error


def compact(folder: Path, *, only_own: bool = False) -> Summary:
    """Compacts every session of a capture that nobody else is at, each for itself.

    Writes nothing where there is nothing to do.

    Args:
        only_own: sessions of other users are left to them.
    """
    done: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    others, failed, damaged = [], [], []
    frames = size = 0
    for session in sessions.sessions(folder):
        try:
            if only_own and not sessions.is_own(folder, session):
                others.append(session)
                continue
            compacted = compact_session(folder, session)
        except Exception as error:
            failed.append((session, reason(error)))
            continue
        done[compacted.finished].append(session)
        frames += compacted.frames
        size += compacted.bytes
        if compacted.gone:
            damaged.append((session, ", ".join(compacted.gone)))
    stuck = sessions.remove_all_hidden(folder, only_own=only_own)
    return Summary(
        sessions=tuple(done[True]),
        busy=tuple(done[None]),
        live=tuple(done[False]),
        frames=frames,
        bytes=size,
        others=tuple(others),
        failed=tuple(failed),
        damaged=tuple(damaged),
        stuck=tuple((path, error.strerror or str(error)) for path, error in stuck.items()),
    )


def reason(error: Exception) -> str:
    """Why a session is left as it is, in one line. What should not happen says where it did."""
    if isinstance(error, OSError | UnknownSpoolError):
        return str(error)
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"


def idle_for(folder: Path, session: str) -> Callable[[], None]:
    """What a session's compactor does while there is nothing to do: it takes over what earlier proxies left, one
    session at a time, and otherwise waits.
    """
    left = [name for name in sessions.sessions(folder) if name != session]

    def idle() -> None:
        if left:
            _take_over_left(folder, left.pop(0))
        else:
            time.sleep(IDLE_SECONDS)

    return idle


def _take_over_left(folder: Path, session: str) -> None:
    """Compacts another session if its writer is gone and nobody is at it. What is wrong with it stays its own."""
    try:
        if sessions.is_live(folder, session):
            # another worker's: its own compactor is about to begin
            return
        done = compact_session(folder, session)
    except Exception as error:
        _say(f"session {session} is left as it is: {reason(error)}")
    else:
        _say_gone(session, done)


def _say_gone(session: str, done: Compacted) -> None:
    if done.gone:
        _say(f"session {session} is damaged, gone are {', '.join(done.gone)}")


def _say(line: str) -> None:
    """On standard error, which is the proxy's."""
    print(f"compactor: {harmless(line)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """The process that the proxy starts. Exit code 0: the session is finished; 1: it isn't; 3: another is at it."""
    parser = argparse.ArgumentParser(prog="recorder.capture.compactor", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the capture")
    parser.add_argument("--session", required=True, help="the session to compact")
    parser.add_argument("--follow", action="store_true", help="go on until the session has ended")
    asked = parser.parse_args(arguments)
    # Ctrl-C is for the proxy; what it wrote is finished here
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    idle = idle_for(asked.folder, asked.session) if asked.follow else None
    try:
        done = compact_session(asked.folder, asked.session, idle=idle)
    except (OSError, UnknownSpoolError) as error:
        _say(str(error))
        return 1
    _say_gone(asked.session, done)
    return 3 if done.finished is None else int(not done.finished)


if __name__ == "__main__":
    queue_standard_error()
    sys.exit(main())
