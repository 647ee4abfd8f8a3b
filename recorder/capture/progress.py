"""The compactor's state files: what the next range starts from.

    STATE_MAGIC, format (uint16), length of the JSON (uint32), JSON, bytes of unfinished frames, CRC-32C of all before

A file is there whole or not at all; the newest one counts, if what else is there agrees with it (`resuming`). One that
is damaged all the same costs what it held, the state of the connections that were open.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from crc32c import crc32c
from msgspec.json import Decoder

from proxy.files import Folder
from recorder.capture.assembly import Assembly
from recorder.capture.facts import SavedSession, SenselessEntryError, checked
from recorder.capture.segments import NUMBER, numbered
from recorder.capture.spool import UnknownSpoolError, short_name

STATE_FORMAT = 2
STATE_MAGIC = b"KWSTATE\n"

_HEAD = struct.Struct(">8sHI")
# bytes of the checksum
_CRC = 4
# bytes of a state and of its JSON: far more than any has, and what a disk has them in takes no room where it is a hole.
# The state is bytes of frames that have not come whole, and a kilobyte or two of each connection
MOST_STATE, MOST_TOLD = 1 << 30, 1 << 28
_NAME = re.compile(rf"({NUMBER})\.state")
_SESSION = Decoder(SavedSession)

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """`segment`: the last one whose files are published. `frames` and `bytes`: rows made so far.

    `log_bytes`: how long the log is up to the end of that segment; None where nobody can say. `is_damaged`: whether the
    state that said so is lost.
    """

    segment: int = 0
    finished: bool = False
    cluster: str | None = None
    frames: int = 0
    bytes: int = 0
    log_bytes: int | None = 0
    is_damaged: bool = False


def state_name(segment: int) -> str:
    """What the state behind that segment is called."""
    return f"{segment:08d}.state"


def states(session: Folder) -> list[int]:
    """The segments of which there are state files, oldest first."""
    return numbered(session, _NAME)


def write_progress(session: Folder, progress: Progress, assembly: Assembly) -> None:
    """Writes the state behind `progress.segment`, synced: a restart begins there. Raises OSError."""
    blob = bytearray()
    text = json.dumps({"progress": asdict(progress), "assembly": assembly.state(blob)}).encode()
    content = _HEAD.pack(STATE_MAGIC, STATE_FORMAT, len(text)) + text + blob
    session.replace(state_name(progress.segment), content + crc32c(content).to_bytes(4, "big"))


def read_state(session: Folder, segment: int, assembly: Assembly) -> Progress:
    """Restores the state behind a segment.

    Errors: SenselessEntryError for one that is damaged or of another segment: the assembly is of no use then;
    UnknownSpoolError for one of a newer format, OSError.
    """
    told, blob = _read(session, segment)
    try:
        assembly.restore(told["assembly"], blob)
    except ValueError as error:
        raise SenselessEntryError(f"no session's state: {error}") from error
    progress = Progress(**told["progress"])
    return replace(progress, cluster=short_name(progress.cluster))


def check_states(session: Folder) -> None:
    """Raises UnknownSpoolError where a state is of a newer format, and OSError."""
    for number in states(session):
        with suppress(SenselessEntryError):
            _read(session, number)


def _read(session: Folder, segment: int) -> tuple[State, memoryview]:
    size = session.size(state_name(segment))
    if not _HEAD.size + _CRC <= size <= MOST_STATE:
        raise SenselessEntryError("no state is so short, or so long")
    magic, number, length = _HEAD.unpack(session.read(state_name(segment), _HEAD.size))
    if magic != STATE_MAGIC or not 0 < length <= MOST_TOLD:
        raise SenselessEntryError("it does not begin like a state")
    content = memoryview(session.read(state_name(segment), size))
    body, crc = content[:-_CRC], content[-_CRC:]
    if crc32c(body).to_bytes(_CRC, "big") != crc:
        raise SenselessEntryError("the state is torn")
    if not 1 <= number <= STATE_FORMAT:
        named = session.path / state_name(segment)
        raise UnknownSpoolError(f"{named}: state format {number}, this program knows up to {STATE_FORMAT}")
    text = bytes(body[_HEAD.size : _HEAD.size + length])
    for step in range(number, STATE_FORMAT):
        text = UPGRADES[step](text)
    told: State = checked(_SESSION, text)
    if told["progress"]["segment"] != segment:
        raise SenselessEntryError("the state of another segment")
    blob = body[_HEAD.size + length :]
    parts = (part for track in told["assembly"]["tracks"] for part in track["parts"] if part is not None)
    if sum(size for _, size in parts) > len(blob):
        raise SenselessEntryError("unfinished frames of more bytes than there are")
    return told, blob


def _numbered(text: bytes) -> bytes:
    """Format 1 knew neither numbers of entries nor how long the log is."""
    try:
        told = json.loads(text)
        told["progress"]["log_bytes"] = None
        told["assembly"] |= {"since_ns": 0, "begun": True, "is_numbered": False, "closed": None}
        for track in told["assembly"]["tracks"]:
            track |= {"next_entry": 0, "reached": None, "late": [0, 0]}
            if track["broken"] is not None:
                track["broken"]["offsets"] = None
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise SenselessEntryError("a state of format 1 says something else") from error
    return json.dumps(told).encode()


# a format's number -> what makes the JSON of the next one of it
UPGRADES: Mapping[int, Callable[[bytes], bytes]] = {1: _numbered}
