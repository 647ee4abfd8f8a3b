"""Tests of options that `kafka-wiretap replay` refuses before it reads anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from proxy.wire.keys import METADATA
from recorder.replay.commands import replay
from tests.recorder.replay.captures import request, write


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return write(tmp_path / "capture", [request(10, 1, 0, METADATA, 12, {"topics": None})])


def refused(*arguments: object) -> str:
    """Returns the last line of a refusal; the command has sent nothing."""
    done = CliRunner().invoke(replay, [*map(str, arguments), "--to", "127.0.0.1:1"])
    assert done.exit_code == 2, done.output
    return done.output.splitlines()[-1]


def test_a_capture_is_not_recorded_into_while_it_is_played(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(capture)
    for folder in (capture, capture / ".." / "capture", tmp_path / "link"):
        assert refused(capture, "--record", folder).endswith(
            "is the capture that is played: right would be another folder"
        )


def test_a_dry_run_can_not_record(capture: Path, tmp_path: Path) -> None:
    assert "right would be one of them" in refused(capture, "--dry-run", "--record", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_folder_that_cannot_be_recorded_into_is_refused(capture: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "can't be written" in refused(capture, "--record", tmp_path / "file" / "kept")


@pytest.mark.parametrize("only", ["Foo", "Produce,Foo"], ids=["alone", "among others"])
def test_an_unknown_api_is_named(capture: Path, only: str) -> None:
    assert "'Foo' is no API; right would be" in refused(capture, "--only", only)
