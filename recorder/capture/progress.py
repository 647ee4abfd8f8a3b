"""The compactor's state files: each holds the state after one segment, from which the next segment is compacted.

Used by `compaction`, `compactor` and `resuming`.

    STATE_MAGIC, format (uint16), length of the JSON (uint32), JSON, bytes of incomplete frames, CRC-32C of all before

The format is the log's.

A file is written whole or not at all. Compaction resumes from the newest one that is whole and consistent with segments
and rows (`resuming`). If there is none, the state of the connections that were open is lost.
"""

from __future__ import annotations

import json
import re
import struct
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from crc32c import crc32c
from msgspec.json import Decoder

from proxy.files import Folder
from recorder.capture.assembly import Assembly
from recorder.capture.entry_json import InvalidEntryError, SavedSession, decode_checked
from recorder.capture.segments import NUMBER, numbered
from recorder.capture.spool import SPOOL_FORMAT, short_name, unknown_format

STATE_MAGIC = b"KWSTATE\n"

_HEAD = struct.Struct(">8sHI")
# bytes of the checksum
_CRC = 4
# the most bytes of a state file, and of its JSON: far more than any has. A state holds the bytes of incomplete frames,
# and a kilobyte or two for each connection. A forged file may be sparse, so that it takes no room on the disk
MAX_STATE, MAX_JSON = 1 << 30, 1 << 28
_NAME = re.compile(rf"({NUMBER})\.state")
_STATE_DECODER = Decoder(SavedSession)

State = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the compaction of a session is.

    Attributes:
        segment: the last segment whose rows are published.
        finished: True if the rows contain the session's end.
        cluster: the cluster in the segment's head.
        frames, bytes: the number of frames in rows so far, and their bytes.
        log_bytes: the log's length up to the end of `segment`; None: unknown.
        is_damaged: True if the state after `segment` is lost.
    """

    segment: int = 0
    finished: bool = False
    cluster: str | None = None
    frames: int = 0
    bytes: int = 0
    log_bytes: int | None = 0
    is_damaged: bool = False


def state_name(segment: int) -> str:
    """The name of the state file of a segment."""
    return f"{segment:08d}.state"


def segments_with_state(session: Folder) -> list[int]:
    """The numbers of the segments that have state files, in order."""
    return numbered(session, _NAME)


def write_progress(session: Folder, progress: Progress, assembly: Assembly) -> None:
    """Writes and syncs the state file of `progress.segment`. Raises OSError."""
    blob = bytearray()
    text = json.dumps({"progress": asdict(progress), "assembly": assembly.state(blob)}).encode()
    content = _HEAD.pack(STATE_MAGIC, SPOOL_FORMAT, len(text)) + text + blob
    session.replace(state_name(progress.segment), content + crc32c(content).to_bytes(4, "big"))


def read_state(session: Folder, segment: int, assembly: Assembly) -> Progress:
    """Reads the state file of a segment. Restores `assembly`, and returns the progress.

    Raises:
        InvalidEntryError: the state is damaged, or that of another segment. The assembly must not be used any more.
        UnknownSpoolError: the state is of another format.
        OSError: the file can't be read.
    """
    state_json, blob = _read(session, segment)
    try:
        assembly.restore(state_json["assembly"], blob)
    except ValueError as error:
        raise InvalidEntryError(f"not the state of a session: {error}") from error
    progress = Progress(**state_json["progress"])
    return replace(progress, cluster=short_name(progress.cluster))


def check_states(session: Folder) -> None:
    """Raises UnknownSpoolError if a state is of another format; OSError if a state can't be read."""
    for number in segments_with_state(session):
        with suppress(InvalidEntryError):
            _read(session, number)


def _read(session: Folder, segment: int) -> tuple[State, memoryview]:
    size = session.size(state_name(segment))
    if not _HEAD.size + _CRC <= size <= MAX_STATE:
        raise InvalidEntryError("too short or too long for a state")
    magic, number, length = _HEAD.unpack(session.read(state_name(segment), _HEAD.size))
    if magic != STATE_MAGIC or not 0 < length <= MAX_JSON:
        raise InvalidEntryError("not a state file")
    content = memoryview(session.read(state_name(segment), size))
    body, crc = content[:-_CRC], content[-_CRC:]
    if crc32c(body).to_bytes(_CRC, "big") != crc:
        raise InvalidEntryError("the state is torn")
    if number != SPOOL_FORMAT:
        raise unknown_format(f"{session.path / state_name(segment)}: state", number)
    state_json: State = decode_checked(_STATE_DECODER, bytes(body[_HEAD.size : _HEAD.size + length]))
    if state_json["progress"]["segment"] != segment:
        raise InvalidEntryError("the state of another segment")
    blob = body[_HEAD.size + length :]
    parts = (part for saved in state_json["assembly"]["tracks"] for part in saved["parts"] if part is not None)
    if sum(size for _, size in parts) > len(blob):
        raise InvalidEntryError("unfinished frames of more bytes than there are")
    return state_json, blob
