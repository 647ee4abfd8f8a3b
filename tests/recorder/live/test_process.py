"""Tests of the live process by itself: what it says when it can't go on."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from recorder.live import process
from recorder.live.folder import SOCKET


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the process, which here is that of the tests, and stays as it is."""
    for name in ("yield_to_others", "bound_memory"):
        monkeypatch.setattr(process, name, lambda _: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    thresholds = gc.get_threshold()
    # a socket's path is short
    with TemporaryDirectory(ignore_cleanup_errors=True) as place:
        (Path(place) / "live").mkdir()
        yield Path(place) / "live"
    gc.set_threshold(*thresholds)


def runs(folder: Path, *options: str) -> int:
    """The process until its end, beside a proxy that records."""
    capture = folder.parent / "capture"
    capture.mkdir(exist_ok=True)
    return process.main([f"--folder={folder}", f"--proxy={os.getppid()}", *options, "--", str(capture)])


def test_a_folder_that_was_removed_is_said_by_who_runs_and_by_who_is_started_anew(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(_: float) -> None:
        assert (folder / SOCKET).exists()
        shutil.rmtree(folder)

    monkeypatch.setattr("time.sleep", removed)
    sentence = f"live: {folder}: the folder was removed, so nobody can ask: right would be to start the proxy again\n"
    for _ in range(2):
        assert runs(folder) == 1
        assert capfd.readouterr().err == sentence
        assert not folder.exists()


def test_an_address_of_the_page_that_is_in_use_is_said(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse-battery-staple")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert runs(folder, f"--page={address}", f"--token-file={token}") == 1
    assert capfd.readouterr().err == f"live: the page can't be served at {address}: Address already in use\n"


def test_signs_of_life_are_given_while_it_works_if_they_are_asked_for(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: shutil.rmtree(folder))
    for options in ((), ("--beat",)):
        folder.mkdir(exist_ok=True)
        assert runs(folder, *options) == 1
        said = capfd.readouterr().out
        assert said == "." * len(said)
        assert bool(said) == bool(options)


def test_a_proxy_that_reads_no_signs_of_life_does_not_block_the_process(folder: Path) -> None:
    reading, writing = os.pipe()
    heartbeat = process.Heartbeat(writing)
    try:
        os.write(writing, bytes(fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)))
        heartbeat.beat()
        os.close(reading)
        heartbeat.beat()
    finally:
        os.close(writing)
