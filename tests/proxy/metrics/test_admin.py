import gzip
import http.client
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from proxy import limited_server
from proxy.limited_server import MAX_CONNECTIONS, Server
from proxy.metrics.admin import admin_app, serve_admin
from proxy.metrics.collector import registry
from proxy.metrics.traffic import Traffic
from tests.brokers.waiting import wait_for
from tests.closing import is_closed_on
from tests.proxy.metrics.exchanges import exchange, finish
from tests.proxy.metrics.scrape import one
from tests.proxy.net.threads import no_threads


class State:
    def __init__(self, reasons: str = "ready") -> None:
        self.ready, self.reasons = True, reasons

    def __call__(self) -> tuple[bool, str]:
        return self.ready, self.reasons


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


@pytest.fixture
def life() -> State:
    return State("alive")


@pytest.fixture
def server(traffic: Traffic, state: State, life: State) -> Iterator[Server]:
    with serve_admin(admin_app(registry(one(traffic)), state, life), "127.0.0.1", 0) as server:
        yield server


def get(server: Server, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_port_0_binds_a_free_one_and_says_which(server: Server) -> None:
    assert server.host == "127.0.0.1"
    assert server.port > 0


def test_metrics_are_served_as_prometheus_reads_them(server: Server, traffic: Traffic) -> None:
    finish(traffic, exchange())
    status, text = get(server, "/metrics")
    assert status == 200
    families = {family.name for family in text_string_to_metric_families(text)}
    assert {"kafka_wiretap_exchanges", "kafka_wiretap_latency_seconds", "process_cpu_seconds"} <= families


def test_openmetrics_is_served_to_who_asks_for_it(server: Server, traffic: Traffic) -> None:
    done = exchange()
    finish(traffic, done, sent_ns=done.response_last_ns)
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    try:
        connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        response = connection.getresponse()
        page = response.read().decode()
    finally:
        connection.close()
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert "kafka_wiretap_latency_seconds" in {family.name for family in parse_openmetrics(page)}


def test_livez_says_alive_whether_ready_or_not(server: Server, state: State) -> None:
    state.ready = False
    assert get(server, "/livez") == (200, "alive\n")


def test_livez_says_why_not(server: Server, life: State) -> None:
    life.ready, life.reasons = False, "the event loop\nis stuck"
    assert get(server, "/livez") == (503, "the event loop is stuck\n")
    assert get(server, "/readyz") == (200, "ready\n")


def test_readyz_says_ready(server: Server) -> None:
    assert get(server, "/readyz") == (200, "ready\n")


def test_readyz_says_in_one_line_why_not(server: Server, state: State) -> None:
    state.ready, state.reasons = False, "the spool cannot be written: disk full;\nnode 2 has no listener"
    assert get(server, "/readyz") == (503, "the spool cannot be written: disk full; node 2 has no listener\n")


@pytest.mark.parametrize("path", ["/", "/metrics/", "/livez/../x", "/favicon.ico"])
def test_an_unknown_path_is_not_found(server: Server, path: str) -> None:
    status, text = get(server, path)
    assert status == 404
    assert "/metrics" in text


def test_a_query_after_the_path_is_no_other_page(server: Server) -> None:
    status, text = get(server, "/metrics?name[]=kafka_wiretap_connections")
    assert status == 200
    assert [family.name for family in text_string_to_metric_families(text)] == ["kafka_wiretap_connections"]


def test_a_silent_peer_does_not_keep_others_waiting(server: Server) -> None:
    with socket.create_connection((server.host, server.port)):
        assert get(server, "/livez")[0] == 200


def test_a_closed_admin_server_does_not_listen(state: State) -> None:
    server = serve_admin(admin_app(registry(one(Traffic())), state, State("alive")), "127.0.0.1", 0)
    server.close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.host, server.port))


def test_a_taken_port_is_reported_at_once(server: Server, state: State) -> None:
    with pytest.raises(OSError, match="in use"):
        serve_admin(admin_app(registry(one(Traffic())), state, State("alive")), "127.0.0.1", server.port)


@pytest.mark.ipv6
def test_an_ipv6_address_is_served_too(state: State) -> None:
    with serve_admin(admin_app(registry(one(Traffic())), state, State("alive")), "::1", 0) as server:
        assert get(server, "/livez")[0] == 200


def test_scrapes_are_not_logged(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    get(server, "/livez")
    assert capfd.readouterr() == ("", "")


def said(server: Server, data: bytes) -> bytes:
    """Sends this and ends; returns the answer."""
    with socket.create_connection((server.host, server.port), 10) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        heard = b""
        while chunk := sock.recv(65536):
            heard += chunk
        return heard


def test_a_bad_accept_header_does_not_fail_a_scrape(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    heard = said(server, b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=\xff\r\n\r\n")
    assert b" 200 OK\r\n" in heard
    assert b"kafka_wiretap_connections" in heard
    assert not caplog.records


GARBAGE = [b"", b"\0" * 100, b"\x16\x03\x01\x02\0\1", b"GET / HTTP/9.9\r\n\r\n"]
GARBAGE += [b"GET /livez HTTP/1.1\r\n" + b"a: b\r\n" * 9000]


@pytest.mark.parametrize("data", GARBAGE)
def test_garbage_is_refused_silently(server: Server, data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    # unread bytes at a close reset the connection
    with suppress(OSError):
        said(server, data)
    assert get(server, "/livez") == (200, "alive\n")
    assert capfd.readouterr() == ("", "")


def test_a_peer_that_resets_its_connection_is_no_fault(
    server: Server, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for data in (b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\n\r\n"):
        sock = socket.create_connection((server.host, server.port))
        sock.sendall(data)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    assert get(server, "/livez")[0] == 200
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_a_request_that_takes_too_long_is_abandoned(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """This includes a request that comes byte by byte, each byte in time."""
    monkeypatch.setattr(limited_server, "PATIENCE_SECONDS", 0.2)
    with socket.create_connection((server.host, server.port), 0.01) as sock:
        assert wait_for(lambda: is_closed_on(sock), "the end of the connection")
    assert capfd.readouterr() == ("", "")


def test_above_the_limit_the_connection_that_has_waited_longest_for_its_request_makes_room(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limited_server, "PATIENCE_SECONDS", 60.0)
    before = threading.active_count()
    holders = [socket.create_connection((server.host, server.port), 30) for _ in range(MAX_CONNECTIONS)]
    holders[0].sendall(b"GET /livez HTTP/1.1\r\nHost: ")
    for path in ("/livez", "/readyz", "/metrics"):
        assert get(server, path)[0] == 200
    # one or two further ones, if the thread of the probe before had not ended yet
    assert holders[0].recv(1) == b""
    assert wait_for(lambda: threading.active_count() <= before + MAX_CONNECTIONS, "the ends of threads")
    # the newest are served
    holders[-1].sendall(b"GET /livez HTTP/1.1\r\n\r\n")
    assert holders[-1].recv(15) == b"HTTP/1.0 200 OK"
    for sock in holders:
        sock.close()


def test_connections_whose_requests_are_answered_make_no_room(state: State) -> None:
    may_answer, asking = threading.Event(), threading.Semaphore(0)

    def slow() -> tuple[bool, str]:
        asking.release()
        may_answer.wait()
        return True, "alive"

    with serve_admin(admin_app(registry(one(Traffic())), state, slow), "127.0.0.1", 0) as server:
        holders = [socket.create_connection((server.host, server.port), 30) for _ in range(MAX_CONNECTIONS)]
        for holder in holders:
            holder.sendall(b"GET /livez HTTP/1.1\r\n\r\n")
        for _ in holders:
            assert asking.acquire(timeout=60)
        with socket.create_connection((server.host, server.port), 30) as above:
            assert above.recv(1) == b""
        may_answer.set()
        for holder in holders:
            assert holder.recv(15) == b"HTTP/1.0 200 OK"
            holder.close()
        # their threads end when they have answered
        wait_for(lambda: asked(server), "a place")


def test_a_connection_for_which_there_is_no_thread_takes_no_place(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with no_threads():
        for _ in range(MAX_CONNECTIONS + 1):
            assert not asked(server)
    wait_for(lambda: asked(server), "a place")
    assert not caplog.records


def test_a_page_for_which_there_is_no_thread_cannot_be_served(state: State, life: State) -> None:
    with no_threads(), pytest.raises(OSError, match="no thread can be had"):
        serve_admin(admin_app(registry(one(Traffic())), state, life), "127.0.0.1", 0)


def asked(server: Server) -> bool:
    try:
        return get(server, "/livez")[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_a_fault_of_the_admin_page_is_answered_and_logged(
    state: State, life: State, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong() -> tuple[bool, str]:
        raise KeyError("x")

    with serve_admin(admin_app(registry(one(Traffic())), state, wrong), "127.0.0.1", 0) as server:
        assert get(server, "/livez")[0] == 500
    (record,) = caplog.records
    assert record.getMessage() == "fault in the admin page"
    assert record.exc_info is not None


def test_metrics_of_another_process_stand_behind_the_proxys_own_in_either_format() -> None:
    asked: list[str] = []

    def more(accept: str) -> bytes:
        asked.append(accept)
        return b'# HELP x A.\n# TYPE x gauge\nx{topic="a\\nb"} 1.0\n'

    page = admin_app(registry(one(Traffic())), State(), State(), [more])
    with serve_admin(page, "127.0.0.1", 0) as server:
        url = f"http://{server.host}:{server.port}/metrics"
        for accept, parse in (
            ("", text_string_to_metric_families),
            ("application/openmetrics-text", parse_openmetrics),
        ):
            headers = {"Accept": accept, "Accept-Encoding": "gzip"}
            with urlopen(Request(url, headers=headers)) as answer:
                text = gzip.decompress(answer.read()).decode()
            samples = [sample for family in parse(text) for sample in family.samples]
            assert [one.labels for one in samples if one.name == "x"] == [{"topic": "a\nb"}]
            assert any(one.name == "kafka_wiretap_ready" for one in samples)
        # a scrape of some names is one of the proxy's own
        assert get(server, "/metrics?name[]=kafka_wiretap_ready")[1].splitlines()[-1] == "kafka_wiretap_ready 1.0"
        assert get(server, "/metrics", "POST")[0] == 405
    assert asked == ["", "application/openmetrics-text"]
