"""Frames that three clients of Kafka 0.7 wrote and read; `client_frames.json` says how it was made."""

import json
from pathlib import Path
from typing import Any

FRAMES: dict[str, Any] = json.loads(Path(__file__).with_name("client_frames.json").read_text())


def built(client: str, call: str) -> bytes:
    """The frame, with its length, that the client's one call with `call` in it wrote."""
    (frame,) = [row["frame"] for row in FRAMES["built"] if row["client"] == client and call in row["call"]]
    return bytes.fromhex(frame)


def read(client: str, call: str) -> list[tuple[bytes, Any]]:
    """The frames, with their lengths, that the client read with such calls, and what it made of each."""
    rows = [row for row in FRAMES["read"] if row["client"] == client and call in row["call"]]
    return [(bytes.fromhex(row["frame"]), row["result"]) for row in rows]
