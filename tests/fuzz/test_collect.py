"""Tests of making the corpus from a capture: the richest small frame of each kind, without masked ones."""

from pathlib import Path
from typing import Any

from fuzz.collect import MAX_BYTES, collect, write
from proxy.wire import apis
from proxy.wire.keys import METADATA, SASL_AUTHENTICATE


def row(frame: bytes, kind: str = "request", key: int = METADATA, **more: Any) -> dict[str, Any]:
    facts = {"kind": kind, "api_key": key, "api": apis.api_name(key), "api_version": 12, "frame": frame}
    return {**facts, "masked": None, "omitted": None, "note": None, **more}


def test_the_largest_frame_that_is_small_enough_is_taken() -> None:
    rows = [row(b"a" * 9), row(b"b" * 20), row(b"c" * 15), row(b"d" * (MAX_BYTES + 1))]
    assert collect([*rows, row(b"answer", "response")]) == {
        ("request", "03-Metadata-v12"): b"b" * 20,
        ("response", "03-Metadata-v12"): b"answer",
    }


def test_frames_that_hold_or_held_secrets_are_not_collected() -> None:
    masked = [{"start": 0, "length": 1}]
    rows = [
        row(b"a", masked=masked),
        row(b"b", key=SASL_AUTHENTICATE),
        row(b"c", note="unknown_api"),
        row(b"", api=None),
    ]
    assert collect([*rows, row(b"d", "token"), row(b"e", omitted=masked)]) == {}


def test_a_file_is_only_replaced_by_a_richer_one(tmp_path: Path) -> None:
    for frame in (b"long one", b"short"):
        write({("request", "03-Metadata-v12"): frame}, tmp_path)
    assert (tmp_path / "request" / "03-Metadata-v12").read_bytes() == b"long one"
