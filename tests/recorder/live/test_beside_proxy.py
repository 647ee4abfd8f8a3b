"""Tests of what the proxy asks the process over its socket, and of what it shows while there is no answer."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from proxy.limited_server import MAX_CONNECTIONS, by_first_name, serve
from recorder.live.beside_proxy import AGE_HEADER, LiveMetrics, NoAnswer, ask, live_command
from recorder.live.folder import LiveFolder
from tests.brokers.waiting import wait_for
from tests.proxy.net.threads import no_threads


def echo(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    start("200 OK", [(AGE_HEADER, "3.5")])
    told = (environ[name] for name in ("SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "HTTP_ACCEPT"))
    return [" ".join(told).encode()]


@pytest.fixture
def path() -> Iterator[Path]:
    # not pytest's own folder: the path of a Unix socket has 107 bytes at most
    with TemporaryDirectory() as folder:
        yield Path(folder) / "s"


def test_a_page_is_found_by_the_first_name_of_the_path_and_sees_the_rest(path: Path) -> None:
    server = serve(by_first_name({"top": echo}), path, "live server")
    try:
        assert path.stat().st_mode & 0o777 == 0o600
        answer = ask(path, "/top/a/b?c=d", accept="x/y")
        assert (answer.status, b"".join(answer.parts())) == (200, b"/top /a/b c=d x/y")
        answer.close()
        nothing = ask(path, "/other")
        assert nothing.status == 404
        nothing.close()
    finally:
        server.close()
    assert not path.exists()


def test_the_last_metrics_are_shown_while_the_process_does_not_answer(path: Path) -> None:
    metrics = LiveMetrics(path)
    assert metrics.text("") == b""
    assert metrics.counters() == {"live_restarts": 0, "live_hung": 0, "live_runs": 0}
    server = serve(by_first_name({"metrics": echo}), path, "live server")
    text = metrics.text("x")
    assert metrics.counters()["live_runs"] == 1
    assert 3.5 <= metrics.counters()["live_age"] < 60
    server.close()
    assert metrics.text("x") == text != b""
    metrics.ended()
    assert {**metrics.counters(), "live_age": 0} == {"live_restarts": 1, "live_hung": 0, "live_runs": 0, "live_age": 0}


def test_a_process_that_is_not_there_or_says_something_else_is_no_answer(path: Path) -> None:
    with pytest.raises(NoAnswer):
        ask(path, "/top")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with pytest.raises(NoAnswer):
            ask(path, "/top", timeout=0.01)


def test_requests_for_which_there_is_no_thread_take_no_place(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server = serve(by_first_name({"top": echo}), path, "live server")
    try:
        with no_threads():
            for _ in range(MAX_CONNECTIONS + 1):
                with pytest.raises(NoAnswer):
                    ask(path, "/top")
        wait_for(lambda: answers(path), "a place")
    finally:
        server.close()
    assert capfd.readouterr().err == ""


def answers(path: Path) -> bool:
    try:
        answer = ask(path, "/top")
    except NoAnswer:
        return False
    answer.close()
    return answer.status == 200


def test_a_value_that_looks_like_an_option_stays_a_value(path: Path) -> None:
    asked = {"name": "-x.example", "top": True, "key": None}
    folder = LiveFolder.make(in_memory=False)
    try:
        command = live_command(folder, Path("-capture"), asked, is_feed=False)
    finally:
        folder.discard()
    assert "--name=-x.example" in command
    assert command[-3:] == ["--top", "--", "-capture"]


def test_a_socket_that_a_killed_process_has_left_is_no_hindrance(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    serve(by_first_name({}), path, "live server").close()
