"""Tests of where the page is served: loopback in clear, elsewhere only with TLS."""

from __future__ import annotations

import gc
import http.client
import socket
import ssl
import threading
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.schema.addresses import Address
from recorder.page import serving
from recorder.page.api import FILES, Source
from recorder.page.serving import Access, CannotServe, Certificate, serve
from tests.brokers.ports import Reserved
from tests.brokers.waiting import PATIENCE, wait_for
from tests.certificates import Authority
from tests.closing import has_ended, is_closed_on
from tests.recorder.page.traffic import heartbeat, recent
from tests.tables import each_row

SOURCE = Source("a capture", lambda: False)
TOKEN = "correct-horse-battery-staple"


@pytest.fixture(autouse=True)
def _no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine what ends by itself is not cut off meanwhile, which would be a line of uvicorn's log."""
    monkeypatch.setattr(serving, "END_SECONDS", PATIENCE)


def asked_of(server: serving.Server, path: str = "", **how: Any) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", timeout=PATIENCE, **how)


@each_row("host", ["0.0.0.0", "::", "10.0.0.1", "wiretap.example"])
def test_beyond_loopback_a_page_needs_a_certificate(tmp_path: Path, host: str) -> None:
    listen = Address(host, 8080)
    with pytest.raises(CannotServe, match="beyond loopback"):
        Access.of(listen, None, None, None)
    assert Access.of(listen, None, tmp_path / "chain", tmp_path / "key").listen == listen


@each_row("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_on_loopback_it_needs_none(host: str) -> None:
    assert Access.of(Address(host, 0), None, None, None).certificate is None


def test_a_certificate_without_its_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotServe, match="both"):
        Access.of(Address("127.0.0.1", 0), None, tmp_path / "chain", None)


def test_each_start_has_a_token_of_its_own_unless_a_file_has_one(tmp_path: Path) -> None:
    place = Address("127.0.0.1", 0)
    assert Access.of(place, None, None, None).token != Access.of(place, None, None, None).token
    file = tmp_path / "token"
    file.write_text(TOKEN)
    assert Access.of(place, file, None, None).token == TOKEN
    file.write_text("short")
    with pytest.raises(CannotServe, match="holds no token"):
        Access.of(place, file, None, None)


def test_a_page_is_served_until_it_is_closed() -> None:
    with serve(recent(heartbeat(1)), SOURCE, Access(Address("127.0.0.1", 0), TOKEN), print) as server:
        asked = asked_of(server, "api/sums", headers={"authorization": f"Bearer {TOKEN}"})
        assert asked.json()["kept"]["exchanges"] == 1
        assert "server" not in asked.headers
    with pytest.raises(httpx.ConnectError):
        asked_of(server)


def test_above_the_limit_the_connection_that_has_waited_longest_for_a_head_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 3)
    with serve(recent(heartbeat(1)), SOURCE, Access(Address("127.0.0.1", 0), TOKEN), print) as server:
        holders = [_silent(server) for _ in range(3)]
        assert asked_of(server).status_code == 401
        assert wait_for(partial(has_ended, holders[0]), "the end of the first connection")
        assert not any(map(has_ended, holders[1:]))
        for holder in holders:
            holder.close()


def test_a_connection_that_was_just_answered_makes_room_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 3)
    with serve(recent(heartbeat(1)), SOURCE, Access(Address("127.0.0.1", 0), TOKEN), print) as server:
        browser = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        browser.connect()
        # once it is closed, another answer is an error
        browser.auto_open = 0
        silent = [_silent(server) for _ in range(2)]
        assert _status(browser) == 401
        assert asked_of(server).status_code == 401
        assert wait_for(partial(has_ended, silent[0]), "the end of the first silent connection")
        assert _status(browser) == 401
        browser.close()
        for one in silent:
            one.close()


def _status(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_connections_that_follow_the_news_make_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 3)
    with serve(recent(heartbeat(1)), SOURCE, Access(Address("127.0.0.1", 0), TOKEN), print) as server:
        streams = [_silent(server) for _ in range(3)]
        for stream in streams:
            stream.settimeout(PATIENCE)
            stream.sendall(
                f"GET /api/news HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
            )
            assert stream.recv(12) == b"HTTP/1.1 200"
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as above, suppress(ConnectionResetError):
            assert above.recv(1) == b""
        for stream in streams:
            stream.close()


def test_streams_end_with_the_page_without_a_line_of_a_log(caplog: pytest.LogCaptureFixture) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    with (
        serve(recent(heartbeat(1)), SOURCE, Access(Address("127.0.0.1", 0), TOKEN), print) as server,
        httpx.stream("GET", f"{server.url}api/news?after=0", headers=headers, timeout=PATIENCE) as news,
    ):
        server.close()
        assert news.read() == b""
    assert not caplog.records


def _silent(server: serving.Server) -> socket.socket:
    """A connection of a peer that says nothing."""
    made = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
    made.settimeout(0.01)
    return made


def test_connections_without_a_whole_head_make_room_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "IDLE_SECONDS", 0.2)
    with serve(recent(heartbeat(1)), SOURCE, Access(Address("127.0.0.1", 0), TOKEN), print) as server:
        holders = [_silent(server) for _ in range(3)]
        # a head comes byte by byte, each byte in time; on a slow machine it may come too late
        with suppress(ConnectionError):
            holders[0].sendall(b"GET / HTTP/1.1\r\nA: ")
        for holder in holders:
            assert wait_for(partial(is_closed_on, holder), "the end of the connection")
            holder.close()


@each_row(
    "sent",
    [
        b"\x16\x03\x01\0\0" * 100,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"POST /signin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\ntoken=",
        b"POST /signin HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n",
    ],
)
def test_what_peers_do_wrong_is_no_line_of_a_log(caplog: pytest.LogCaptureFixture, sent: bytes) -> None:
    with serve(recent(heartbeat(1)), SOURCE, Access(Address("127.0.0.1", 0), TOKEN), print) as server:
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as peer:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while peer.recv(1 << 16):
                    pass
        assert asked_of(server).status_code == 401
    assert not caplog.records


@contextmanager
def by_tls(folder: Path) -> Iterator[tuple[serving.Server, ssl.SSLContext]]:
    """A page that is served by TLS, and what a browser is told."""
    authority = Authority(folder)
    pem = authority.signs("server").path
    access = Access(Address("127.0.0.1", 0), TOKEN, Certificate(pem, pem))
    with serve(recent(heartbeat(1)), SOURCE, access, print) as server:
        yield server, ssl.create_default_context(cafile=authority.path)


@pytest.mark.real
def test_a_page_is_served_by_tls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with by_tls(tmp_path) as (server, trusting):
        assert server.url.startswith("https://")
        bearer = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(verify=trusting, headers=bearer, timeout=PATIENCE) as browser:
            # large answers, one behind the other on a connection
            for _ in range(3):
                assert browser.get(f"{server.url}style.css").text == (FILES / "style.css").read_text()
        assert asked_of(server, verify=trusting).status_code == 401
        for sent in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\0\5abcde", b""):
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as peer, suppress(ConnectionResetError):
                peer.sendall(sent)
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(1 << 16):
                    pass
        assert asked_of(server, verify=trusting).status_code == 401
    assert not caplog.records


@pytest.mark.real
def test_peers_that_say_nothing_of_tls_count_and_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 3)
    with by_tls(tmp_path) as (server, trusting):
        holders = [_silent(server) for _ in range(10)]
        assert asked_of(server, verify=trusting).status_code == 401
        for holder in holders[:8]:
            assert wait_for(partial(has_ended, holder), "the end of the connection")
        assert not any(map(has_ended, holders[8:]))
        for holder in holders:
            holder.close()


@pytest.mark.real
def test_peers_that_make_room_before_their_handshake_begins_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 3)
    held: list[threading.Thread] = []
    monkeypatch.setattr(serving, "begin", held.append)
    with by_tls(tmp_path) as (server, trusting):
        # all come in one turn of the loop, which begins behind them
        holders = [_silent(server) for _ in range(30)]
        held[0].start()
        assert asked_of(server, verify=trusting).status_code == 401
        wait_for(lambda: _handshakes() <= 3, "the handshakes of those that made room to be gone")
        for holder in holders:
            holder.close()


def _handshakes() -> int:
    gc.collect()
    return sum(isinstance(one, SSLProtocol) for one in gc.get_objects())


@pytest.mark.real
def test_peers_that_drip_a_handshake_are_let_go_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with by_tls(tmp_path) as (server, trusting):
        with monkeypatch.context() as impatient:
            impatient.setattr(serving, "IDLE_SECONDS", 0.2)
            holder = _silent(server)
            # the head of a ClientHello, of which each byte comes in time
            with suppress(ConnectionError):
                holder.sendall(b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3")
            assert wait_for(partial(is_closed_on, holder), "the end of the connection")
            holder.close()
        assert asked_of(server, verify=trusting).status_code == 401


@pytest.mark.real
def test_peers_in_their_handshake_do_not_hold_up_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with by_tls(tmp_path) as (server, trusting):
        holders = [_silent(server) for _ in range(3)]
        # connections are taken in their order
        assert asked_of(server, verify=trusting).status_code == 401
    for holder in holders:
        assert wait_for(partial(has_ended, holder), "the end of the connection")
        holder.close()
    assert not caplog.records


def test_a_certificate_that_is_none_is_a_sentence_and_frees_the_port(tmp_path: Path) -> None:
    file = tmp_path / "chain"
    file.write_text("nothing")
    place = Reserved("127.0.0.1")
    for _ in range(2):
        with pytest.raises(CannotServe, match="certificate can't be used"):
            serve(recent(), SOURCE, Access(Address(place.host, place.port), TOKEN, Certificate(file, file)), print)
    place.release()
