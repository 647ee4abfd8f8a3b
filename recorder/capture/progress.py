"""The compactor's state files: what the next range starts from.

    STATE_MAGIC, format (uint16), length of the JSON (uint32), JSON, bytes of unfinished frames, CRC-32C of all before

A file is there whole or not at all; the newest one counts. One that is damaged all the same costs what it held, the
state of the connections that were open: the segments before it are rows already, and those behind it go on.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from crc32c import crc32c
from msgspec.json import Decoder

from proxy.files import Folder
from recorder.capture.assembly import Assembly
from recorder.capture.facts import SavedSession, SenselessEntryError, checked
from recorder.capture.spool import UnknownSpoolError

STATE_FORMAT = 2
STATE_MAGIC = b"KWSTATE\n"

_HEAD = struct.Struct(">8sHI")
_NAME = re.compile(r"(\d{8,})\.state")
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
    return sorted(int(match[1]) for name in session.names() if (match := _NAME.fullmatch(name)))


def write_progress(session: Folder, progress: Progress, assembly: Assembly) -> None:
    """Writes the state behind `progress.segment`, synced: a restart begins there. Raises OSError."""
    blob = bytearray()
    text = json.dumps({"progress": asdict(progress), "assembly": assembly.state(blob)}).encode()
    content = _HEAD.pack(STATE_MAGIC, STATE_FORMAT, len(text)) + text + blob
    session.replace(state_name(progress.segment), content + crc32c(content).to_bytes(4, "big"))


def read_newest(session: Folder, assembly: Assembly) -> Progress:
    """Restores the newest state; a session without one begins.

    Errors: UnknownSpoolError for one of a newer format, OSError.
    """
    found = states(session)
    if not found:
        return Progress()
    try:
        told, blob = _read(session, found[-1])
        assembly.restore(told["assembly"], blob)
        return Progress(**told["progress"])
    except UnknownSpoolError:
        raise
    except ValueError:
        assembly.forget()
        return Progress(found[-1], log_bytes=None, is_damaged=True)


def check_newest(session: Folder) -> None:
    """Raises UnknownSpoolError where the newest state is of a newer format, and OSError."""
    for number in states(session)[-1:]:
        with suppress(SenselessEntryError):
            _read(session, number)


def _read(session: Folder, segment: int) -> tuple[State, bytes]:
    content = session.read(state_name(segment))
    body, crc = content[:-4], content[-4:]
    if len(body) < _HEAD.size or crc32c(body).to_bytes(4, "big") != crc:
        raise SenselessEntryError("the state is torn")
    magic, number, length = _HEAD.unpack_from(body)
    if magic != STATE_MAGIC or not 1 <= number <= STATE_FORMAT:
        named = session.path / state_name(segment)
        raise UnknownSpoolError(f"{named}: state format {number}, this program knows up to {STATE_FORMAT}")
    told = body[_HEAD.size : _HEAD.size + length]
    for step in range(number, STATE_FORMAT):
        told = UPGRADES[step](told)
    return checked(_SESSION, told), body[_HEAD.size + length :]


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
