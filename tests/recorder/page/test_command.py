"""Tests of `kafka-wiretap view`: what it refuses, what it prints, how it ends."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx
import pytest

from recorder.extras import MODULES
from tests.brokers import children
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.harness import PROGRAM
from tests.recorder.running import run
from tests.recorder.small_capture import everything, write

TOKEN = "correct-horse-battery-staple"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    write(tmp_path / "capture", "frames", everything())
    return tmp_path / "capture"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--listen", "0.0.0.0:0"], "--listen 0.0.0.0:0 is beyond loopback, where it needs TLS"),
        (["--certificate", "page.pem"], "--certificate and --key belong together"),
        (["--token-file", "none"], "none can't be read"),
        (["topc == x"], "did you mean topic?"),
        (["--listen", "127.0.0.1"], "has no port"),
    ],
)
def test_what_is_wrong_is_a_line_that_says_what_would_be_right(
    capture: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(capture.parent)
    done = run("view", capture, *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_folder_that_is_no_capture_and_a_url_of_no_bucket_are_refused(tmp_path: Path) -> None:
    assert "holds no capture" in run("view", tmp_path).stderr
    assert "right would be s3://BUCKET/FOLDER" in run("view", "https://bucket/capture").stderr


def test_an_address_in_use_is_a_line(capture: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("view", capture, "--listen", f"127.0.0.1:{port}")
    assert done.exit_code == 1
    assert done.stderr == f"Error: the page can't be served at 127.0.0.1:{port}: Address already in use\n"


def test_without_its_packages_the_command_says_how_to_install_them(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.extras.find_spec", lambda name: None)
    done = run("view", capture)
    assert f"not installed: {', '.join(MODULES['page'])}" in done.stderr


@pytest.mark.real
@pytest.mark.parametrize("has_file", [False, True], ids=["a new token", "a token of a file"])
def test_the_page_is_served_until_ctrl_c(capture: Path, tmp_path: Path, has_file: bool) -> None:
    log, file = tmp_path / "log", tmp_path / "token"
    file.write_text(TOKEN)
    options = ["--token-file", str(file)] if has_file else []
    running = children.spawn([*PROGRAM, "view", str(capture), "--since", "-1h", *options], output=log)
    try:
        found = wait_for(
            lambda: re.search(r"at (http://127\.0\.0\.1:\d+/)(?:#token=(\S+))?", log.read_text()), "the page"
        )
        assert bool(found[2]) is not has_file
        headers = {"authorization": f"Bearer {found[2] or TOKEN}"}
        with httpx.Client(base_url=found[1], timeout=PATIENCE) as browser:
            kept = wait_for(
                lambda: browser.get("api/sums", headers=headers).json()["kept"]["exchanges"], "the exchanges"
            )
            assert kept > 0
            assert browser.post("signin", data={"token": found[2] or TOKEN}).status_code == 303
        running.send_signal(signal.SIGINT)
        # by the signal, so that a shell's loop ends too
        assert running.wait(PATIENCE) == -signal.SIGINT
    finally:
        children.stop(running)
    told = log.read_text()
    assert "has signed in to the page" in told
    assert TOKEN not in told
    assert "Traceback" not in told
