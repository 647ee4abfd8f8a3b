"""Makes a capture folder ready to be read: compacts finished sessions, and refuses strange files.

It compacts only this user's own sessions: files written for another user's session would hinder that user's proxy.
Strange files (links, FIFOs, other Parquet) are refused here, before Spark or another reader opens them.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from proxy.files import Folder
from proxy.option_types import FOLDER, Type
from proxy.terminal import printable
from recorder.capture.frames import (
    AT_NS,
    EVENTS_FOLDER,
    FORMAT,
    FRAMES_FOLDER,
    KIND,
    SESSION,
    DamagedFileError,
    UnknownFormatError,
    format_of,
    newer_format_message,
)
from recorder.capture.keep import begin_reading
from recorder.capture.remote import SCHEME, Place, is_url, place_at, reason_of
from recorder.capture.retention import removed_so_far
from recorder.capture.session import SPOOL_FOLDER, is_live, links, open_session, sessions
from recorder.capture.unshipped import waiting
from recorder.terminal import console, count, size

if TYPE_CHECKING:
    from recorder.capture.compactor import Summary


class CaptureType(Type):
    """Where a capture is: a folder of this machine, or s3://BUCKET/FOLDER."""

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """The place. Errors: BadParameter for another URL, or for a file."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        if is_url(value) and not value.startswith(SCHEME):
            self.fail(f"{value!r} is no capture's URL; right would be s3://BUCKET/FOLDER", param, ctx)
        place = place_at(value)
        return FOLDER.convert(value, param, ctx) if isinstance(place, Path) else place

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Folders."""
        return FOLDER.shell_complete(ctx, param, incomplete)


class NoCapture(click.ClickException):
    """There is nothing to read. The message is one line; exit code 2, as for any wrong argument."""

    exit_code = 2


def ready(folder: Path) -> list[str]:
    """Compacts finished sessions; returns lines on frames that can't be shown.

    Errors: NoCapture if the folder can't be read, holds no capture, or holds a capture without frames; ClickException
    if it holds a strange file.
    """
    try:
        try:
            return _made_ready(folder)
        except FileNotFoundError:
            # a file was removed after it was listed; older ones go first, so the next listing is without it
            return _made_ready(folder)
    except OSError as error:
        raise NoCapture(f"{printable(folder)} can't be read: {error.strerror or error}") from error


# behind a URL there is no log
URL_NOTE = "not looked for behind a URL: what a log holds that is not compacted yet"


def ready_at(place: Place) -> list[str]:
    """As `ready`, also for a capture in a bucket, which must have frames."""
    if isinstance(place, Path):
        return ready(place)
    from recorder.capture.reader import files

    try:
        found = files(place)
    except UnknownFormatError as error:
        raise NoCapture(f"{printable(place)} can't be read: {printable(error)}") from error
    except OSError as error:
        raise NoCapture(f"{printable(place)} can't be read: {printable(reason_of(error))}") from error
    if not found:
        raise NoCapture(f"{printable(place)} holds no frames: right would be s3://BUCKET/FOLDER with a frames folder")
    return [URL_NOTE]


def _made_ready(folder: Path) -> list[str]:
    check_encodes(folder)
    check_is_capture(folder)
    begin_reading(folder)
    notes, recorded = _compacted(folder)
    notes += _removed(folder)
    notes += _not_shipped(folder)
    files = _files(folder)
    # in other Parquet, missing columns would be read as null, and the capture would seem empty
    if files and files[0].stat().st_size and not _is_ours(files[0]):
        parquet = printable(files[0])
        raise NoCapture(f"{printable(folder)} holds no capture: {parquet} is Parquet without a capture's columns")
    _check_formats(files)
    if not files:
        yet = " yet" if recorded else ""
        why = f" ({'; '.join(notes)})" if notes else ""
        raise NoCapture(f"the capture in {printable(folder)} holds no frames{yet}{why}")
    return notes


def _removed(folder: Path) -> list[str]:
    """A line on what was removed of the capture, if anything was."""
    found = removed_so_far(folder)
    if not found.files:
        return []
    begins = datetime.fromtimestamp(found.whole_from_ns // 10**9, UTC)
    why = ", ".join(f"keep.{reason}: {size(freed)}" for reason, freed in sorted(found.bytes.items()))
    gone = f"{count(found.files, 'older file')} {'was' if found.files == 1 else 'were'} removed ({why})"
    return [f"{gone}: the capture is whole from {begins:%Y-%m-%d %H:%M:%S} UTC on"]


def _not_shipped(folder: Path) -> list[str]:
    """A line on what is not shipped of a capture that is shipped."""
    found = waiting(folder)
    if not found:
        return []
    oldest = datetime.fromtimestamp(min(file.version.at_ns for file in found) // 10**9, UTC)
    what = f"{count(len(found), 'file')}, {size(sum(file.version.size for file in found))}"
    return [f"not shipped yet, so only here: {what}, the oldest of {oldest:%Y-%m-%d %H:%M:%S} UTC"]


def check_is_capture(folder: Path) -> None:
    """Checks that the folder holds a capture. Errors: NoCapture if it does not, or can't be read."""
    shown = printable(folder)
    try:
        is_there = folder.exists()
        is_capture = any((folder / name).is_dir() for name in (FRAMES_FOLDER, SPOOL_FOLDER))
    except OSError as error:
        raise NoCapture(f"{shown} can't be read: {error.strerror}") from error
    if not is_capture:
        lacks = "holds no capture" if is_there else "does not exist"
        raise NoCapture(f"{shown} {lacks}: record one with  kafka-wiretap proxy --record {shown} ...")


def check_encodes(folder: Path) -> None:
    """Raises NoCapture for a path that is not UTF-8: readers and writers of Parquet can't use it."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise NoCapture(f"{printable(folder)}: Parquet needs a path in UTF-8; right would be another name") from None


def _files(folder: Path) -> list[Path]:
    """All files of frames; the files of events are checked too."""
    from recorder.capture.reader import files

    try:
        files(folder, EVENTS_FOLDER)
        return [Path(str(file.path)) for file in files(folder)]
    except (DamagedFileError, UnknownFormatError) as error:
        raise click.ClickException(str(error)) from error


def _is_ours(file: Path) -> bool:
    """True if the file has a capture's columns; also if it can't be read, because the reader has a better error."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = pq.read_schema(file).names
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return True
    return {SESSION, KIND, AT_NS} <= set(names)


def _check_formats(files: list[Path]) -> None:
    """Refuses sessions of a newer format, because Spark does not check the number.

    One program writes a whole session, so one file of each session is checked. Errors: NoCapture.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from recorder.capture.reader import file_at

    for path in {file_at(path).session: path for path in files}.values():
        # the file's reader has better errors for all other faults
        with suppress(OSError, pa.ArrowException, UnicodeDecodeError, UnknownFormatError):
            number = format_of(pq.read_schema(path).metadata)
            if number > FORMAT:
                raise NoCapture(f"{printable(path)}: {newer_format_message(number)}")


def _compacted(folder: Path) -> tuple[list[str], bool]:
    """(lines on frames that can't be shown, True if some of these frames will appear later)."""
    try:
        if not (sessions(folder) or links(folder)):
            return [], False
        from recorder.capture.compactor import compact

        with console(stderr=True).status("compacting ...") as status:
            done = compact(folder, only_own=True, say=lambda far: status.update(f"compacting {far} ..."))
        # a proxy's own compactor locks its session as long as it runs
        live = sorted({*done.live, *(name for name in done.busy if _is_live(folder, name))})
    except OSError as error:
        return [str(error)], False
    busy = [name for name in done.busy if name not in live]
    notes = [
        f"a proxy is still recording session {name}, or has just ended: {_yet_to_come(folder, name)}" for name in live
    ]
    notes += [f"session {name} is being compacted by another process: try again" for name in busy]
    is_to_come = bool(notes)
    notes += [
        f"session {name} is another user's: kafka-wiretap compact {printable(folder)} finishes it"
        for name in done.of_other_users
    ]
    return notes + troubles(done), is_to_come


def _is_live(folder: Path, session: str) -> bool:
    """True if a session that another process compacts is still written; False if the folder can't be read."""
    with suppress(OSError):
        return is_live(folder, session)
    return False


def troubles(done: Summary) -> list[str]:
    """A line for each session that could not be compacted, or has lost a part of its log."""
    left = [f"session {name} is left as it is: {why}" for name, why in done.failed]
    left += [f"session {name} is damaged, gone are {parts}: see its gaps" for name, parts in done.damaged]
    return left + [f"the folder of a finished session can't be removed: {path}: {why}" for path, why in done.stuck]


def _yet_to_come(folder: Path, session: str) -> str:
    """A sentence with the time after which a live session's frames appear, and the size of its waiting log."""
    from recorder.capture.segments import segment_name, segments

    try:
        with open_session(folder, session) as opened:
            numbers = segments(opened)
            waiting = sum(opened.size(segment_name(number)) for number in numbers)
            age = _age_seconds(opened, numbers[-1]) if numbers else None
    except FileNotFoundError:
        # the session has been compacted meanwhile
        waiting, age = 0, None
    when = "once a segment of its log is full or old enough" if age is None else f"up to {age:g} s"
    return f"frames appear {when} (capture.segment_age) after they passed; {size(waiting)} of log are still to come"


def _age_seconds(session: Folder, number: int) -> float | None:
    from recorder.capture.segments import SegmentReader

    try:
        reader = SegmentReader(session, number)
    except (OSError, ValueError):
        return None
    reader.close()
    return reader.head.age_seconds
