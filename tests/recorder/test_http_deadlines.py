"""Tests of the deadline of a request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from requests import RequestException

from proxy.threads import NoThread
from recorder.http_deadlines import Session, within
from tests.proxy.net.threads import no_threads


@pytest.fixture
def url() -> Iterator[str]:
    """Where connections are accepted, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://localhost:{server.getsockname()[1]}"


@contextmanager
def answering() -> Iterator[tuple[str, Future[tuple[bytes, bytes]]]]:
    """A peer that answers one request: its URL; what it is asked, and what comes on the connection behind that."""

    def answer() -> tuple[bytes, bytes]:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(20)
            asked = connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return asked, connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:
        server.settimeout(20)
        yield f"http://127.0.0.1:{server.getsockname()[1]}", threads.submit(answer)


def test_a_request_without_a_thread_is_not_made(url: str) -> None:
    with closing(Session()) as session, no_threads(), pytest.raises(NoThread):
        within(1, lambda line: session.get(url))


def test_a_request_that_is_not_answered_ends_at_its_deadline(url: str) -> None:
    why = list[Exception]()

    def ask(line: Any) -> None:
        try:
            session.get(url)
        except RequestException as error:
            why.append(error)
            raise

    with closing(Session()) as session, pytest.raises(TimeoutError):
        within(0.1, ask)
    # its thread has ended, too
    assert len(why) == 1


def test_a_name_that_is_looked_up_for_ever_holds_nobody(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    over, ended, found = threading.Event(), threading.Event(), socket.getaddrinfo

    def slow(*given: Any) -> Any:
        over.wait()
        return found(*given)

    def ask(line: Any) -> None:
        try:
            session.get(url)
        except RequestException:
            # what it connects to later is cut at once
            ended.set()

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    with closing(Session()) as session:
        with pytest.raises(TimeoutError):
            within(0.1, ask)
        over.set()
        assert ended.wait(30)


def test_the_authorization_of_a_request_is_not_that_of_other_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with answering() as (url, answered):
        with closing(Session()) as session:
            within(20, lambda line: session.get(url, headers={"Authorization": "Bearer mine"}).content)
        asked, _ = answered.result()
    assert [line for line in asked.split(b"\r\n") if line.startswith(b"Authorization")] == [
        b"Authorization: Bearer mine"
    ]


def test_no_descriptor_keeps_a_connection_open_after_its_request() -> None:
    lines = list[Any]()

    def ask(line: Any) -> bytes:
        # or its descriptor would be closed with it
        lines.append(line)
        return session.get(url).content

    with answering() as (url, answered):
        with closing(Session()) as session:
            within(20, ask)
        _, behind = answered.result()
    assert behind == b""
