"""Tests of the tap: it passes bytes on, and records them."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.brokers.ports import Reserved
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.streams import frames
from tests.clients.tap import Tap

Serve = Callable[[socket.socket], None]


@pytest.fixture
def server() -> Iterator[Callable[[Serve], str]]:
    """Starts a server for one connection; returns its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(serve: Serve) -> str:
        threads.append(threading.Thread(target=lambda: serve(listener.accept()[0])))
        threads[-1].start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for thread in threads:
        thread.join(PATIENCE)
    listener.close()


def answer_at_the_end(connection: socket.socket) -> None:
    """Reads to the end and answers with the size, so it answers only if a half-close is passed on."""
    with connection, connection.makefile("rb") as requests:
        connection.sendall(str(len(requests.read())).encode())


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.recv(1)
    connection.close()


def test_both_directions_are_written_down_byte_for_byte(server: Callable[[Serve], str], tmp_path: Path) -> None:
    port, sent = Reserved("127.0.0.1"), bytes(range(256)) * 8192
    with Tap({str(port): server(answer_at_the_end)}, tmp_path / "tap") as tap:
        with socket.create_connection((port.host, port.port)) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            assert client.makefile("rb").read() == b"2097152"
        tap.close()
        (seen,) = tap.connections()
    assert (seen.dialled, seen.requests, seen.responses) == (str(port), sent, b"2097152")
    port.release()


def test_a_reset_is_passed_on_as_an_end(server: Callable[[Serve], str], tmp_path: Path) -> None:
    port = Reserved("127.0.0.1")
    with (
        Tap({str(port): server(reset)}, tmp_path / "tap"),
        socket.create_connection((port.host, port.port), timeout=PATIENCE) as client,
    ):
        client.sendall(b"x")
        assert client.recv(1) == b""
    port.release()


@pytest.mark.real
def test_bytes_that_a_client_sent_before_it_left_reach_the_broker(tmp_path: Path) -> None:
    """The test repeats it, because either the sender or the receiver may notice first that the client has left."""
    port, got = Reserved("127.0.0.1"), []
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Tap({str(port): f"127.0.0.1:{listener.getsockname()[1]}"}, tmp_path / "tap") as tap,
    ):
        for number in range(50):
            with socket.create_connection((port.host, port.port)) as client, listener.accept()[0] as connection:
                talker = threading.Thread(target=talk_on, args=(connection,))
                talker.start()
                client.recv(1)
                client.sendall(b"request %d" % number)
                client.close()
                got.append(read_to_the_end(connection))
                talker.join(PATIENCE)
        tap.close()
        written = [one.requests for one in tap.connections()]
    assert got == written == [b"request %d" % number for number in range(50)]
    port.release()


def test_a_tap_that_has_caught_up_has_written_down_all_that_was_sent(
    server: Callable[[Serve], str], tmp_path: Path
) -> None:
    port, sent = Reserved("127.0.0.1"), bytes(100_000)
    with (
        Tap({str(port): server(answer_at_the_end)}, tmp_path / "tap") as tap,
        socket.create_connection((port.host, port.port)) as client,
    ):
        for times in range(1, 21):
            client.sendall(sent)
            tap.catch_up()
            assert tap.requested() == {times * len(sent): 1}
    port.release()


def talk_on(connection: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection.sendall(bytes(20_000))


def read_to_the_end(connection: socket.socket) -> bytes:
    """Or up to a reset, after which nothing can be sent either."""
    found = bytearray()
    with suppress(OSError):
        while chunk := connection.recv(100):
            found += chunk
        connection.shutdown(socket.SHUT_RDWR)
    return bytes(found)


def test_a_target_that_is_down_is_an_end_too(tmp_path: Path) -> None:
    port, nobody = Reserved("127.0.0.1"), Reserved("127.0.0.1")
    with (
        Tap({str(port): str(nobody)}, tmp_path / "tap"),
        socket.create_connection((port.host, port.port), timeout=PATIENCE) as client,
    ):
        assert client.recv(1) == b""
    port.release()
    nobody.release()


def test_frames_end_where_the_stream_was_cut() -> None:
    assert list(frames(b"\0\0\0\1a\0\0\0\0\0\0\0\2b")) == [b"a", b""]


def test_a_tap_with_new_routes_refuses_at_the_old_address_and_keeps_open_connections(
    server: Callable[[Serve], str], tmp_path: Path
) -> None:
    before, after = Reserved("127.0.0.1"), Reserved("127.0.0.1")
    with (
        Tap({str(before): server(answer_at_the_end)}, tmp_path / "tap") as tap,
        socket.create_connection((before.host, before.port), timeout=PATIENCE) as client,
    ):
        wait_for(tap.connections, "the tap to let the first one in")
        tap.reroute({str(after): server(answer_at_the_end)})
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((before.host, before.port), timeout=PATIENCE)
        with socket.create_connection((after.host, after.port), timeout=PATIENCE) as other:
            for connection, sent in ((client, b"old"), (other, b"newer")):
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                assert connection.makefile("rb").read() == str(len(sent)).encode()
    before.release()
    after.release()
