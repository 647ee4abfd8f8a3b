import http.client
import socket
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.metrics.admin import Server, admin_app, serve_admin
from proxy.metrics.collector import registry
from proxy.metrics.traffic import Traffic
from tests.proxy.metrics.exchanges import exchange
from tests.proxy.metrics.scrape import one


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
    connection = http.client.HTTPConnection(server.host, server.port, timeout=10)
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
    traffic.finished([exchange()], sent_ns=0)
    status, text = get(server, "/metrics")
    assert status == 200
    families = {family.name for family in text_string_to_metric_families(text)}
    assert {"kafka_wiretap_exchanges", "kafka_wiretap_latency_seconds", "process_cpu_seconds"} <= families


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
def test_anything_else_is_not_found(server: Server, path: str) -> None:
    status, text = get(server, path)
    assert status == 404
    assert "/metrics" in text


def test_a_query_behind_the_path_is_no_other_page(server: Server) -> None:
    status, text = get(server, "/metrics?name[]=kafka_wiretap_connections")
    assert status == 200
    assert [family.name for family in text_string_to_metric_families(text)] == ["kafka_wiretap_connections"]


def test_a_silent_peer_does_not_keep_others_waiting(server: Server) -> None:
    with socket.create_connection((server.host, server.port)):
        assert get(server, "/livez")[0] == 200


def test_after_close_nobody_listens(state: State) -> None:
    server = serve_admin(admin_app(registry(one(Traffic())), state, State("alive")), "127.0.0.1", 0)
    server.close()
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.host, server.port))


def test_a_taken_port_is_said_at_once(server: Server, state: State) -> None:
    with pytest.raises(OSError, match="in use"):
        serve_admin(admin_app(registry(one(Traffic())), state, State("alive")), "127.0.0.1", server.port)


def test_an_ipv6_address_is_served_too(state: State) -> None:
    with serve_admin(admin_app(registry(one(Traffic())), state, State("alive")), "::1", 0) as server:
        assert get(server, "/livez")[0] == 200


def test_scrapes_are_not_logged(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    get(server, "/livez")
    assert capfd.readouterr() == ("", "")
