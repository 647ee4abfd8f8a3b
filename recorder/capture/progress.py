"""The compactor's state files: each holds the state after one segment, from which the next segment is compacted.

Used by `compaction`, `compactor` and `resuming`.

    STATE_MAGIC, format (uint16), length of the JSON (uint32), JSON, bytes of incomplete frames, CRC-32C of all before

The format is the log's. Of an encrypted log, the JSON is a state in clear, which holds no byte of traffic, and the
bytes are the whole state, encrypted (`cipher`). Without the key, the one in clear is read: connections go on from it
with a gap.

A file is written whole or not at all. Compaction resumes from the newest one that is whole and consistent with segments
and rows (`resuming`). If there is none, the state of the connections that were open is lost.
"""

from __future__ import annotations

import json
import re
import struct
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from crc32c import crc32c
from msgspec.json import Decoder

from proxy.files import Folder
from recorder.capture.assembly import Assembly
from recorder.capture.cipher import LogCipher, new_salt
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


def write_progress(session: Folder, progress: Progress, assembly: Assembly, cipher: LogCipher | None = None) -> None:
    """Writes and syncs the state file of `progress.segment`. `cipher`: that of an encrypted log. Raises OSError."""
    blob = bytearray()
    content = _content({"progress": asdict(progress), "assembly": assembly.state(blob)}, blob)
    if cipher is not None:
        salt = new_salt()
        clear = {"progress": asdict(progress), "assembly": assembly.state_in_clear(), "salt": salt.hex()}
        content = _content(clear, cipher.encrypted_state(content, _text(clear), salt))
    session.replace(state_name(progress.segment), content)


def _content(state: State, blob: bytes | bytearray) -> bytes:
    text = _text(state)
    content = _HEAD.pack(STATE_MAGIC, SPOOL_FORMAT, len(text)) + text + blob
    return content + crc32c(content).to_bytes(_CRC, "big")


def _text(state: State) -> bytes:
    return json.dumps(state).encode()


def read_state(session: Folder, segment: int, assembly: Assembly, cipher: LogCipher | None = None) -> Progress:
    """Reads the state file of a segment. Restores `assembly`, and returns the progress.

    `cipher`: that of an encrypted log; None: not known.

    Raises:
        InvalidEntryError: the state is damaged, or that of another segment. The assembly must not be used any more.
        UnknownSpoolError: the state is of another format.
        OSError: the file can't be read.
    """
    state_json, blob = _read(session, segment, cipher)
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


def _read(session: Folder, segment: int, cipher: LogCipher | None = None) -> tuple[State, memoryview]:
    name = state_name(segment)
    size = session.size(name)
    if size > MAX_STATE:
        raise InvalidEntryError("too long for a state")
    # a file of another kind is not read whole
    _length(session.read(name, _HEAD.size))
    text, blob = _parts(session.read(name, size), session.path / name)
    state_json: State = decode_checked(_STATE_DECODER, text)
    if "salt" in state_json:
        if cipher is None:
            blob = memoryview(b"")
        else:
            whole = cipher.decrypted_state(bytes(blob), text, bytes.fromhex(state_json["salt"]))
            if whole is None:
                raise InvalidEntryError("the state is not what its key has made")
            text, blob = _parts(whole, session.path / name)
            state_json = decode_checked(_STATE_DECODER, text)
    if state_json["progress"]["segment"] != segment:
        raise InvalidEntryError("the state of another segment")
    parts = (part for saved in state_json["assembly"]["connections"] for part in saved["parts"] if part is not None)
    if sum(size for _, size in parts) > len(blob):
        raise InvalidEntryError("unfinished frames of more bytes than there are")
    return state_json, blob


def _length(content: bytes | memoryview) -> tuple[int, int]:
    """The format of a state, and the length of its JSON. Raises InvalidEntryError."""
    if len(content) < _HEAD.size:
        raise InvalidEntryError("too short for a state")
    magic, number, length = _HEAD.unpack_from(content)
    if magic != STATE_MAGIC or not 0 < length <= MAX_JSON:
        raise InvalidEntryError("not a state file")
    return number, length


def _parts(content: bytes, path: Path) -> tuple[bytes, memoryview]:
    """The JSON and the further bytes of a state. Raises InvalidEntryError, UnknownSpoolError."""
    number, length = _length(content)
    if len(content) < _HEAD.size + _CRC:
        raise InvalidEntryError("too short for a state")
    body, crc = memoryview(content)[:-_CRC], content[-_CRC:]
    if crc32c(body).to_bytes(_CRC, "big") != crc:
        raise InvalidEntryError("the state is torn")
    if number != SPOOL_FORMAT:
        raise unknown_format(f"{path}: state", number)
    return bytes(body[_HEAD.size : _HEAD.size + length]), body[_HEAD.size + length :]
