"""Frames that three clients of Kafka 0.7 wrote and read; `client_frames.json` says how it was made."""

import json
from pathlib import Path
from typing import Any

FRAMES: dict[str, Any] = json.loads(Path(__file__).with_name("client_frames.json").read_text())


def built(client: str, call: str) -> bytes:
    """Returns the frame, with its length, that the client wrote in its one call with `call` in it."""
    (frame,) = [row["frame"] for row in FRAMES["built"] if row["client"] == client and call in row["call"]]
    return bytes.fromhex(frame)


def read(client: str, call: str) -> list[tuple[bytes, Any]]:
    """Returns the frames, with their lengths, that the client read in such calls, and the results."""
    rows = [row for row in FRAMES["read"] if row["client"] == client and call in row["call"]]
    return [(bytes.fromhex(row["frame"]), row["result"]) for row in rows]
