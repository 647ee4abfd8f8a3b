from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from recorder.reading.elements import Told
from recorder.tracing.collector import Collector, NotTaken
from recorder.tracing.headers import WrongHeaders, headers_in
from recorder.tracing.spans import Spans
from tests.brokers.waiting import wait_for
from tests.recorder.tracing.receiver import receiver
from tests.recorder.tracing.traffic import metadata, pair_of


@pytest.fixture
def span(tmp_path: Path):
    return Spans(Told()).span(pair_of(tmp_path, metadata()))


def test_a_collector_gets_spans_with_the_headers_of_the_file(tmp_path: Path, span) -> None:
    path = tmp_path / "headers"
    path.write_text("# for the collector\nAuthorization: Bearer a:b\n\nX-Tenant:  blue \n")
    with receiver() as got:
        collector = Collector(got.url, headers_in(path))
        collector.send([span, span])
        collector.close()
    assert [each.name for each in got.spans] == ["Metadata", "Metadata"]
    ((where, headers, _),) = got.requests
    assert where == "/v1/traces"
    assert (headers["authorization"], headers["x-tenant"]) == ("Bearer a:b", "blue")


def has_taken(collector: Collector, span: Any) -> bool:
    """False if a busy machine's answer came too late."""
    try:
        collector.send([span])
    except NotTaken:
        return False
    return True


def test_a_collector_that_errs_hangs_hangs_up_or_is_gone_does_not_take_and_says_why(span) -> None:
    with receiver() as got:
        # one is as patient as usual, since an answer of a busy machine may take a while
        patient, collector = Collector(got.url, {}), Collector(got.url, {}, patience=0.3)
        got.status = 400
        with pytest.raises(NotTaken, match="400"):
            patient.send([span])
        got.status = 503
        with pytest.raises(NotTaken, match="Failed to export"):
            collector.send([span])
        got.hangs_up = True
        with pytest.raises(NotTaken, match="Failed to export"):
            collector.send([span])
        got.hang.clear()
        with pytest.raises(NotTaken, match="Failed to export"):
            collector.send([span])
        got.hang.set()
        got.hangs_up, got.status = False, 200
        wait_for(partial(has_taken, collector, span), "an answer that is in time")
    with pytest.raises(NotTaken, match="Failed to export"):
        collector.send([span])
    patient.close()
    collector.close()


def test_why_a_collector_can_not_be_reached_is_said_in_words(span) -> None:
    with receiver() as got:
        pass
    # a retry has room
    collector = Collector(got.url, {}, patience=3)
    with pytest.raises(NotTaken, match=r"^Transient error Connection refused encountered"):
        collector.send([span])
    collector.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_takes_nothing(span, status: int) -> None:
    with receiver() as got, receiver() as elsewhere:
        got.status, got.headers = status, {"Location": f"{elsewhere.url}/v1/traces", "Content-Length": "0"}
        collector = Collector(got.url, {"X-Api-Key": "secret"})
        with pytest.raises(NotTaken, match=f"redirects with status {status}"):
            collector.send([span])
        collector.close()
        assert not elsewhere.requests


def test_an_answer_without_an_end_is_not_read(span) -> None:
    with receiver() as got:
        written = 0

        def parts() -> Iterator[bytes]:
            nonlocal written
            while written < 1 << 26:
                yield bytes(1 << 16)
                written += 1 << 16

        got.headers, got.body = {"Content-Length": str(1 << 30)}, parts()
        collector = Collector(got.url, {})
        collector.send([span])
        collector.close()
    # the rest of what the system holds for a socket
    assert written < 1 << 24


@contextmanager
def dripping(begin: bytes) -> Iterator[str]:
    """A server that answers each request with these bytes and then one further byte again and again. Its URL."""
    over = threading.Event()

    class Dripping(StreamRequestHandler):
        def handle(self) -> None:
            self.request.recv(1 << 16)
            with suppress(OSError):
                self.wfile.write(begin)
                while not over.wait(0.02):
                    self.wfile.write(b"x")

    with ThreadingTCPServer(("127.0.0.1", 0), Dripping) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            over.set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nA: "])
def test_a_collector_that_drips_its_answer_does_not_take_in_time(span, begin: bytes) -> None:
    with dripping(begin) as place:
        collector = Collector(f"http://{place}", {}, patience=0.3)
        for _ in range(2):
            with pytest.raises(NotTaken, match="Failed to export"):
                collector.send([span])
        collector.close()


@pytest.mark.parametrize("length", ["Content-Length: 4000", "Connection: close"])
def test_a_collector_that_drips_the_body_of_its_answer_has_taken(span, length: str) -> None:
    with dripping(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n".encode()) as place:

        def has_taken_two() -> bool:
            collector = Collector(f"http://{place}", {}, patience=0.3)
            try:
                return has_taken(collector, span) and has_taken(collector, span)
            finally:
                collector.close()

        wait_for(has_taken_two, "two heads that are in time")


def test_a_collector_that_drips_a_handshake_of_tls_does_not_take_in_time(span) -> None:
    # the head of a ServerHello
    with dripping(b"\x16\x03\x03\x40\0\2\0\x3f\xfc\3\3") as place:
        collector = Collector(f"https://{place}", {}, patience=0.3)
        with pytest.raises(NotTaken, match="Failed to export"):
            collector.send([span])
        collector.close()


def test_a_connection_that_is_used_again_ends_at_the_deadline_of_the_later_request(span) -> None:
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        asked = 0

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.asked += 1
            with suppress(OSError):
                while self.asked > 1 and not over.wait(0.02):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nA: "[:1])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        collector = Collector(f"http://127.0.0.1:{server.server_port}", {}, patience=0.3)
        try:
            wait_for(partial(has_taken, collector, span), "an answer that is in time")
            with pytest.raises(NotTaken, match="Failed to export"):
                collector.send([span])
        finally:
            over.set()
            collector.close()
            server.shutdown()
            thread.join()


def test_a_wrong_file_of_headers_is_refused_without_its_values(tmp_path: Path) -> None:
    path = tmp_path / "headers"
    for content in (
        b"Authorization Bearer secret",
        b"A: b\nno header: secret\x01",
        b"bad name: secret",
        b"\xff: secret",
    ):
        path.write_bytes(content)
        with pytest.raises(WrongHeaders) as wrong:
            headers_in(path)
        assert "secret" not in str(wrong.value)
    with pytest.raises(WrongHeaders):
        headers_in(tmp_path / "none")
