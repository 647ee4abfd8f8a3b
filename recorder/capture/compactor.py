"""Compacts the sessions of a capture: one to its end (`main`), or all that no other process compacts (`compact`).

    python -m recorder.capture.compactor FOLDER --session S --follow

The proxy starts this process, which ends with the session. If the proxy dies, the process compacts the rest of the log.
While it is idle, it compacts sessions that earlier proxies have left. `kafka-wiretap compact` calls `compact`. If one
session fails, the others are still compacted.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from proxy.files import Folder
from proxy.niceness import yield_to_others
from proxy.standard_error import queue_standard_error
from proxy.terminal import harmless
from recorder.capture import session as sessions
from recorder.capture.cipher import LogCipher
from recorder.capture.compaction import Compaction
from recorder.capture.fact_child import FactChild
from recorder.capture.handover import MOST_BYTES, Handover, decoded
from recorder.capture.lock import Lock, take_compactor_lock
from recorder.capture.progress import check_states
from recorder.capture.record_hashing import hashing_of
from recorder.capture.retention import Keeper
from recorder.capture.segments import SegmentReader, segments
from recorder.capture.session import FolderError
from recorder.capture.spool import DamagedSegmentError, UnknownSpoolError
from recorder.capture.storage import BeforeStep, ignore_step

# how often a compactor that has caught up looks for new entries
IDLE_SECONDS = 0.05
# Python's collector of circles begins after so many new objects (its default is 700, 10, 10): looking at them took a
# tenth of the time of small frames
COLLECT_AFTER = (20_000, 50, 100)
# the proxy's traffic is more urgent than the compaction
NICENESS = 10


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of `compact`.

    Attributes:
        sessions: the sessions that were finished.
        busy: the sessions that another process is compacting.
        live: the sessions that are still written.
        frames, bytes: the number of frames in published rows, and their bytes.
        of_other_users: the sessions of other users, which were left alone.
        failed: the sessions that are left as they are, each with the reason.
        damaged: the compacted sessions of which parts of the log are lost, each with those parts.
        stuck: the folders of finished sessions that can't be removed, each with the reason.
    """

    sessions: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    frames: int = 0
    bytes: int = 0
    of_other_users: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()
    stuck: tuple[tuple[str, str], ...] = ()


class Compacted(NamedTuple):
    """The outcome for one session. `finished`: False while its writer lives, None if another process compacts it.

    `lost_parts`: descriptions of the lost parts of its log.
    """

    finished: bool | None
    frames: int = 0
    bytes: int = 0
    lost_parts: tuple[str, ...] = ()


def compact_session(
    folder: Path,
    session: str,
    *,
    before_step: BeforeStep = ignore_step,
    idle: Callable[[], None] | None = None,
    say: Callable[[str], None] = ignore_step,
    facts_failed: Callable[[], int] = int,
    keeper: Keeper | None = None,
    handover: Handover | None = None,
) -> Compacted:
    """Compacts one session.

    Args:
        say: called with words on how far it is.
        handover: the keys and rules of an encrypted log; None: it is in clear, or they are gone.
        For the others see `Compaction`.

    Raises, before anything is changed:
        FolderError: the capture can't be written, or its file system has no locks.
        UnknownSpoolError: the spool's format is another.
        StrangeFileError: one of the session's files is no plain file.
    """
    try:
        opened = sessions.open_session(folder, session)
    except FileNotFoundError:
        # another process has finished and removed the session in the meantime
        return Compacted(True)
    with opened:
        sessions.check_plain_files(folder, opened)
        _check_known(opened)
        sessions.check_can_finish(folder, opened)
        lock = _take_lock(folder, opened)
        if lock is None:
            # another process compacts the session, or has finished and removed it in the meantime
            return Compacted(None if session in sessions.sessions(folder) else True)

        def step(name: str) -> None:
            if keeper is not None:
                keeper.look()
            say(f"{compaction.frames} frames done, {len(segments(opened))} files of log left")
            before_step(name)

        compaction = Compaction(
            folder,
            opened,
            before_step=step,
            idle=idle,
            facts_failed=facts_failed,
            keeper=keeper,
            cipher=None if handover is None else LogCipher(handover.log_key),
            hashing=None if handover is None else hashing_of(handover.rules, handover.hash_key),
        )
        if keeper is not None:
            # a full volume may have room only once something has gone
            keeper.look()
        try:
            with _rare_collections():
                finished = compaction.run()
        finally:
            compaction.close()
            lock.release()
        return Compacted(finished, compaction.frames, compaction.bytes, tuple(compaction.lost_parts))


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Lets Python look for circles of objects more rarely: frames and exchanges make many objects and no circles."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _check_known(session: Folder) -> None:
    """Raises UnknownSpoolError for a session of another format, before anything is changed."""
    # another compactor may be removing these files
    with suppress(FileNotFoundError):
        check_states(session)
    for number in segments(session):
        with suppress(DamagedSegmentError, FileNotFoundError):
            SegmentReader(session, number).close()


def _take_lock(folder: Path, session: Folder) -> Lock | None:
    try:
        return take_compactor_lock(session)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FolderError(
            f"the capture {folder} has a spool that isn't compacted, and can't be written or locked: {error.strerror}"
        ) from error


def compact(folder: Path, *, only_own: bool = False, say: Callable[[str], None] = ignore_step) -> Summary:
    """Compacts every session of a capture that no other process is compacting. Writes nothing if there is none.

    `only_own`: True: leave the sessions of other users alone. `say`: called with words on how far the work is.
    """
    by_outcome: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    of_other_users, damaged = [], []
    failed = [(link, "it is a link, which is not followed") for link in sessions.links(folder)]
    frames = size = 0
    every = sessions.sessions(folder)
    for number, session in enumerate(every, 1):
        place = f"session {number} of {len(every)}"
        say(place)
        try:
            if only_own and not sessions.is_own(folder, session):
                of_other_users.append(session)
                continue
            compacted = compact_session(folder, session, say=partial(_say_of, say, place))
        except Exception as error:
            failed.append((session, reason(error)))
            continue
        by_outcome[compacted.finished].append(session)
        frames += compacted.frames
        size += compacted.bytes
        if compacted.lost_parts:
            damaged.append((session, ", ".join(compacted.lost_parts)))
    stuck = sessions.remove_all_hidden(folder, only_own=only_own)
    return Summary(
        sessions=tuple(by_outcome[True]),
        busy=tuple(by_outcome[None]),
        live=tuple(by_outcome[False]),
        frames=frames,
        bytes=size,
        of_other_users=tuple(of_other_users),
        failed=tuple(failed),
        damaged=tuple(damaged),
        stuck=tuple((path, error.strerror or str(error)) for path, error in stuck.items()),
    )


def _say_of(say: Callable[[str], None], place: str, far: str) -> None:
    say(f"{place}: {far}")


def reason(error: Exception) -> str:
    """The error for which a session is left as it is, in one line; of an unexpected error, also its line of code."""
    if isinstance(error, OSError | UnknownSpoolError):
        return str(error)
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"


def idle_for(
    folder: Path, session: str, facts: FactChild | None = None, keeper: Keeper | None = None
) -> Callable[[], None]:
    """The `idle` function of a `Compaction`: compacts what an earlier proxy left, makes facts, removes, or waits."""
    leftovers = [name for name in sessions.sessions(folder) if name != session]

    def idle() -> None:
        if leftovers:
            _compact_leftover(folder, leftovers.pop(0), keeper)
            return
        if facts is not None:
            facts.idle()
        if keeper is not None:
            keeper.look()
        time.sleep(IDLE_SECONDS)

    return idle


def _compact_leftover(folder: Path, session: str, keeper: Keeper | None) -> None:
    """Compacts a session that an earlier proxy left, unless another process does. Never raises.

    `keeper`: looks meanwhile; what it removes is told in the session of this compactor.
    """
    try:
        if sessions.is_live(folder, session):
            # the session of another worker, whose own compactor is about to begin
            return
        done = compact_session(folder, session, before_step=lambda _: keeper.look() if keeper else None)
    except Exception as error:
        _print_line(f"session {session} is left as it is: {reason(error)}")
    else:
        _print_losses(session, done)


def _print_losses(session: str, done: Compacted) -> None:
    if done.lost_parts:
        _print_line(f"session {session} is damaged, gone are {', '.join(done.lost_parts)}")


def _print_line(line: str) -> None:
    """Prints to standard error, which is the proxy's."""
    print(f"compactor: {harmless(line)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """The process that the proxy starts. Exit code 0: the session is finished; 1: not; 3: another process has it."""
    parser = argparse.ArgumentParser(prog="recorder.capture.compactor", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the capture")
    parser.add_argument("--session", required=True, help="the session to compact")
    parser.add_argument("--follow", action="store_true", help="go on until the session has ended")
    parser.add_argument("--facts", action="store_true", help="make the facts of the frames, in a child")
    parser.add_argument("--keys", action="store_true", help="read the session's keys from standard input")
    options = parser.parse_args(arguments)
    # Ctrl-C and SIGHUP are for the proxy; this process goes on to the end of the log
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    yield_to_others(NICENESS)
    try:
        handover = decoded(sys.stdin.buffer.read(MOST_BYTES)) if options.keys else None
    except ValueError as error:
        _print_line(str(error))
        return 1
    facts = FactChild(options.folder, _print_line) if options.facts else None
    keeper = Keeper(options.folder, _print_line) if options.follow else None
    idle = idle_for(options.folder, options.session, facts, keeper) if options.follow else None
    try:
        done = compact_session(
            options.folder,
            options.session,
            before_step=facts.step if facts else ignore_step,
            idle=idle,
            facts_failed=lambda: facts.failed if facts else 0,
            keeper=keeper,
            handover=handover,
        )
    except (OSError, UnknownSpoolError) as error:
        _print_line(str(error))
        return 1
    finally:
        if facts is not None:
            facts.close()
    _print_losses(options.session, done)
    return 3 if done.finished is None else int(not done.finished)


if __name__ == "__main__":
    queue_standard_error()
    sys.exit(main())
