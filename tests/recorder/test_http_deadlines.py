"""Tests of the deadline of a request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
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
