"""The compactor's state files: each holds the state after a segment. The next segment starts from the newest one.

    STATE_MAGIC, format (uint16), length of the JSON (uint32), JSON, bytes of unfinished frames, CRC-32C of all before

A file is written whole or not at all. The newest one counts, if segments and rows agree with it (`resuming`). A damaged
file costs the state of the connections that were open.
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
# bytes of a state and of its JSON: far more than any has. A state holds the bytes of unfinished frames, and a kilobyte
# or two for each connection; a forged one may be a sparse file, which takes no room on the disk
MAX_STATE, MAX_JSON = 1 << 30, 1 << 28
_NAME = re.compile(rf"({NUMBER})\.state")
_SESSION = Decoder(SavedSession)

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """`segment`: the last one whose files are published. `frames` and `bytes`: of the rows made so far.

    `log_bytes`: the log's length up to the end of that segment; None if unknown. `is_damaged`: True if the state after
    that segment is lost.
    """

    segment: int = 0
    finished: bool = False
    cluster: str | None = None
    frames: int = 0
    bytes: int = 0
    log_bytes: int | None = 0
    is_damaged: bool = False


def state_name(segment: int) -> str:
    """The name of the file with the state after a segment."""
    return f"{segment:08d}.state"


def states(session: Folder) -> list[int]:
    """The segments that have state files, oldest first."""
    return numbered(session, _NAME)


def write_progress(session: Folder, progress: Progress, assembly: Assembly) -> None:
    """Writes the state after `progress.segment`, synced: a restart begins there. Raises OSError."""
    blob = bytearray()
    text = json.dumps({"progress": asdict(progress), "assembly": assembly.state(blob)}).encode()
    content = _HEAD.pack(STATE_MAGIC, STATE_FORMAT, len(text)) + text + blob
    session.replace(state_name(progress.segment), content + crc32c(content).to_bytes(4, "big"))


def read_state(session: Folder, segment: int, assembly: Assembly) -> Progress:
    """Restores the state after a segment.

    Errors: SenselessEntryError for a state that is damaged or of another segment, after which the assembly must not be
    used; UnknownSpoolError for a newer format; OSError.
    """
    state_json, blob = _read(session, segment)
    try:
        assembly.restore(state_json["assembly"], blob)
    except ValueError as error:
        raise SenselessEntryError(f"no session's state: {error}") from error
    progress = Progress(**state_json["progress"])
    return replace(progress, cluster=short_name(progress.cluster))


def check_states(session: Folder) -> None:
    """Raises UnknownSpoolError where a state is of a newer format, and OSError."""
    for number in states(session):
        with suppress(SenselessEntryError):
            _read(session, number)


def _read(session: Folder, segment: int) -> tuple[State, memoryview]:
    size = session.size(state_name(segment))
    if not _HEAD.size + _CRC <= size <= MAX_STATE:
        raise SenselessEntryError("too short or too long for a state")
    magic, number, length = _HEAD.unpack(session.read(state_name(segment), _HEAD.size))
    if magic != STATE_MAGIC or not 0 < length <= MAX_JSON:
        raise SenselessEntryError("not a state file")
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
    state_json: State = checked(_SESSION, text)
    if state_json["progress"]["segment"] != segment:
        raise SenselessEntryError("the state of another segment")
    blob = body[_HEAD.size + length :]
    parts = (part for track in state_json["assembly"]["tracks"] for part in track["parts"] if part is not None)
    if sum(size for _, size in parts) > len(blob):
        raise SenselessEntryError("unfinished frames of more bytes than there are")
    return state_json, blob


def _from_format_1(text: bytes) -> bytes:
    """Upgrades the JSON of format 1, which had neither numbers of entries nor the log's length."""
    try:
        state_json = json.loads(text)
        state_json["progress"]["log_bytes"] = None
        state_json["assembly"] |= {"since_ns": 0, "begun": True, "is_numbered": False, "closed": None}
        for track in state_json["assembly"]["tracks"]:
            track |= {"next_entry": 0, "reached": None, "late": [0, 0]}
            if track["broken"] is not None:
                track["broken"]["offsets"] = None
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise SenselessEntryError("not a state of format 1") from error
    return json.dumps(state_json).encode()


# a format's number -> the upgrade of its JSON to the next format
UPGRADES: Mapping[int, Callable[[bytes], bytes]] = {1: _from_format_1}
