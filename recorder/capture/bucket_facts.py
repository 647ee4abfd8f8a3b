"""Facts in a bucket, beside the frames of a capture there, laid out as on disk (`fact_files`).

A bucket renames nothing, but an object is there whole or not at all. So a marker that counts for nothing comes first,
then the tables, and their marker last: as on disk, facts count once they are whole. Nothing is locked: two who make the
facts of the same frames write the same bytes.

Readers copy facts to this machine, and check what they have copied: a bucket may be anybody's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from recorder.capture.entry_json import InvalidEntryError
from recorder.capture.fact_files import (
    HOUR,
    MAX_MARKER,
    Marker,
    State,
    Stem,
    TableFacts,
    digest_of,
    fact_paths_of,
    hour_key,
    marker_in,
    state_of_number,
    void_marker,
)
from recorder.capture.partitions import DONE_FOLDER, FACTS_FOLDER
from recorder.capture.reader import CaptureFile
from recorder.capture.remote import S3Path, copy, size_of
from recorder.facts.tables import NUMBER, TABLES


class _FactFile(NamedTuple):
    """A file of facts. `path`: in the folder of facts; `of`: the file of frames."""

    of: CaptureFile
    table: str
    path: str
    made: TableFacts


def facts_in(capture: S3Path) -> S3Path:
    """The folder of the facts of a capture."""
    return capture / FACTS_FOLDER


def marked(capture: S3Path) -> list[str]:
    """The names of the stems that have a marker. Errors: OSError."""
    return (facts_in(capture) / DONE_FOLDER).names()


def state_in(capture: S3Path, stem: Stem, *, checked: bool = False) -> State:
    """As of `fact_files.state_of`. In a bucket a file's time is that of its upload, so frames are known by their size.

    Errors: OSError.
    """
    try:
        marker = marker_in(_marker_text(capture, stem.name))
        if (state := state_of_number(marker.number)) is not State.CURRENT:
            return state
        made = _made(stem, marker)
    except FileNotFoundError:
        return State.MISSING
    except InvalidEntryError:
        return State.DAMAGED
    if made is None:
        return State.OTHER_FRAMES
    is_whole = all(_is_as_made(facts_in(capture) / one.path, one.made, checked) for one in made)
    return State.CURRENT if is_whole else State.DAMAGED


def _is_as_made(path: S3Path, made: TableFacts, checked: bool) -> bool:
    try:
        return size_of(path) == made.bytes and (not checked or digest_of(path) == made.digest)
    except FileNotFoundError:
        return False


def _marker_text(capture: S3Path, stem: str) -> bytes:
    """A marker's bytes. Errors: OSError; InvalidEntryError for what is too long to be one."""
    with (facts_in(capture) / DONE_FOLDER / stem).open() as file:
        text: bytes = file.read(MAX_MARKER + 1)
    if len(text) > MAX_MARKER:
        raise InvalidEntryError("a marker takes fewer bytes")
    return text


def _made(stem: Stem, marker: Marker) -> list[_FactFile] | None:
    """The files of facts that a marker names; None if it is of other frames. Errors: OSError; InvalidEntryError."""
    found = []
    for file in stem.files:
        hour = marker.hours.get(hour_key(file))
        if hour is None or size_of(file.path) != hour.size:
            return None
        named = zip(fact_paths_of(file, marker), hour.tables.items(), strict=True)
        found += [_FactFile(file, table, path, made) for path, (table, made) in named]
    return found


def paths_in(capture: S3Path, stem: Stem) -> dict[str, dict[str, str]]:
    """The URLs of a stem's current facts, as of `fact_files.fact_paths`; nothing of others. Errors: OSError."""
    if state_in(capture, stem) is not State.CURRENT:
        return {}
    made = _made(stem, marker_in(_marker_text(capture, stem.name)))
    return _by_file(stem, made or (), facts_in(capture))


def _by_file(stem: Stem, made: Iterable[_FactFile], where: Path | S3Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {str(file.path): {} for file in stem.files}
    for one in made:
        found[str(one.of.path)][one.table] = str(where / one.path)
    return found


def copied(
    capture: S3Path, stem: Stem, into: Path, most: int, tables: Collection[str] | None = None
) -> dict[str, dict[str, str]]:
    """Copies a stem's current facts, of at most `most` bytes, and returns them as of `fact_files.fact_paths`.

    Nothing is returned of facts that can't be read, or are not as they were made.

    Args:
        into: the folder whose `facts` they become.
        tables: which ones; None: all, and their marker.
    """
    with suppress(OSError, InvalidEntryError):
        text = _marker_text(capture, stem.name)
        marker = marker_in(text)
        made = _made(stem, marker) if marker.number == NUMBER else None
        wanted = [one for one in made or () if tables is None or one.table in tables]
        if made is None or sum(one.made.bytes for one in wanted) > most:
            return {}
        for one in wanted:
            copy(facts_in(capture) / one.path, into / FACTS_FOLDER / one.path)
            if digest_of(into / FACTS_FOLDER / one.path) != one.made.digest:
                return {}
        if tables is None:
            done = into / FACTS_FOLDER / DONE_FOLDER
            done.mkdir(parents=True, exist_ok=True)
            (done / stem.name).write_bytes(text)
        return _by_file(stem, wanted, into / FACTS_FOLDER)
    return {}


def publish_in(capture: S3Path, stem: Stem, made_in: Path) -> None:
    """Publishes facts that `fact_maker.make` has made in a folder: tables first, their marker last. Errors: OSError."""
    _write(capture, stem.name, void_marker(stem))
    for file in stem.files:
        _remove(capture, hour_key(file), file.path.name)
    text = (made_in / FACTS_FOLDER / DONE_FOLDER / stem.name).read_bytes()
    for one in _made(stem, marker_in(text)) or ():
        copy(made_in / FACTS_FOLDER / one.path, facts_in(capture) / one.path)
    _write(capture, stem.name, text)


def _write(capture: S3Path, stem: str, marker: bytes) -> None:
    with (facts_in(capture) / DONE_FOLDER / stem).open("wb") as file:
        file.write(marker)


def _remove(capture: S3Path, hour: str, name: str) -> None:
    """Removes the files of facts of one file of frames. A marker may come from anywhere: no hour is passed over."""
    if HOUR.fullmatch(hour):
        for table in TABLES:
            (facts_in(capture) / table.name / hour / name).remove()


def forget_gone_in(capture: S3Path, stems: Iterable[Stem]) -> None:
    """Removes the facts of frames that have gone, as after merging. `stems`: those of all files. Errors: OSError."""
    present = {stem.name for stem in stems}
    for name in marked(capture):
        if name not in present:
            with suppress(InvalidEntryError):
                for hour in marker_in(_marker_text(capture, name)).hours:
                    _remove(capture, hour, f"{name}.parquet")
            (facts_in(capture) / DONE_FOLDER / name).remove()
