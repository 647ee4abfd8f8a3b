"""The compactor's state files: what the next range starts from.

    STATE_MAGIC, length of the JSON (uint32), JSON, bytes of unfinished frames, CRC-32C of all before

A file is there whole or not at all; the newest one counts.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

from crc32c import crc32c

from recorder.capture.assembly import Assembly
from recorder.capture.spool import UnknownSpoolError
from recorder.capture.storage import write_synced

STATE_FORMAT = 1
STATE_MAGIC = b"KWSTATE\n"

_HEAD = struct.Struct(">8sHI")
_NAME = re.compile(r"(\d{8,})\.state")


@dataclass(frozen=True, slots=True)
class Progress:
    """`segment`: the last one whose files are published. `frames` and `bytes`: rows made so far."""

    segment: int = 0
    finished: bool = False
    cluster: str | None = None
    frames: int = 0
    bytes: int = 0


def states(spool: Path) -> list[tuple[int, Path]]:
    """The state files of a session's spool folder, oldest first, each with its segment's number."""
    found = ((_NAME.fullmatch(path.name), path) for path in spool.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match)


def write_progress(spool: Path, progress: Progress, assembly: Assembly) -> None:
    """Writes the state behind `progress.segment`, synced: a restart begins there. Raises OSError."""
    blob = bytearray()
    text = json.dumps({"progress": asdict(progress), "assembly": assembly.state(blob)}).encode()
    content = _HEAD.pack(STATE_MAGIC, STATE_FORMAT, len(text)) + text + blob
    write_synced(spool / f"{progress.segment:08d}.state", content + crc32c(content).to_bytes(4, "big"))


def read_newest(spool: Path, assembly: Assembly) -> Progress:
    """Restores the newest state; a session without one begins. Raises UnknownSpoolError for another format's."""
    found = states(spool)
    if not found:
        return Progress()
    content = found[-1][1].read_bytes()
    # one that is too short for a head is none either
    magic, number, length = _HEAD.unpack_from(content.ljust(_HEAD.size))
    body, crc = content[:-4], content[-4:]
    if magic != STATE_MAGIC or number != STATE_FORMAT or crc32c(body).to_bytes(4, "big") != crc:
        raise UnknownSpoolError(f"{found[-1][1]} can't be read: compact the capture where it was made")
    told = json.loads(body[_HEAD.size : _HEAD.size + length])
    assembly.restore(told["assembly"], body[_HEAD.size + length :])
    return Progress(**told["progress"])
