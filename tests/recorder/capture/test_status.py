"""Tests of the status file, which only informs: no content of it makes a reader fail."""

import os

import pytest

from proxy.files import Folder
from recorder.capture.status import Status, read_status, write_status


def test_a_status_is_read_whole_or_not_at_all(session: Folder) -> None:
    assert read_status(session) is None
    write_status(session, Status(frames=3, position=5))
    write_status(session, Status(frames=4, segment=2))
    assert read_status(session) == Status(frames=4, segment=2)


@pytest.mark.parametrize(
    "text",
    ["{junk", '{"a": 1}', "[]", '{"frames": "many"}', '{"frames": [1]}', "[" * 4000, "", "\xff"],
    ids=["junk", "other", "list", "text", "nested", "deep", "empty", "bytes"],
)
def test_a_bad_status_file_is_ignored(session: Folder, text: str) -> None:
    (session.path / "status.json").write_bytes(text.encode("latin-1"))
    assert read_status(session) is None


def test_a_status_file_that_would_block_is_ignored(session: Folder) -> None:
    os.mkfifo(session.path / "status.json")
    assert read_status(session) is None
