"""Tests of `top`'s questions, by the proxy's admin page and the live process's own server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from proxy.cli import main
from proxy.limited_server import Server, by_first_name, serve
from proxy.metrics.admin import admin_app, serve_admin
from proxy.metrics.collector import ClusterNumbers, registry
from proxy.metrics.nodes import NodeRow
from proxy.metrics.traffic import Traffic
from proxy.schema.addresses import Address
from recorder.live.door import Door
from recorder.live.top import Top
from recorder.reading.elements import Told
from recorder.top import client as client_module
from recorder.top import command
from recorder.top.client import Client, NoAnswer, Recording, WrongFilter
from tests.recorder.page.traffic import SESSION, produce

TOKEN = "0123456789abcdef"


def counted() -> CollectorRegistry:
    traffic = Traffic()
    down = traffic.nodes["2"] = NodeRow()
    down.reach = down.reach.after(1000.5, success=False)
    return registry([ClusterNumbers("main", traffic, list)])


@pytest.fixture
def top() -> Top:
    return Top(Told())


@pytest.fixture
def admin(top: Top, tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "token").write_text(TOKEN)
    with TemporaryDirectory() as folder:
        socket = Path(folder) / "s"
        server = serve(by_first_name({"top": top}), socket, "live server")
        page = admin_app(
            counted(), lambda: (True, ""), lambda: (True, ""), (), {"live": Door(socket, tmp_path / "token")}
        )
        with serve_admin(page, "127.0.0.1", 0) as admin:
            yield admin
        server.close()


@pytest.fixture
def client(admin: Server) -> Client:
    return Client(Address(admin.host, admin.port), TOKEN)


def test_what_passes_a_filter_is_told_as_it_comes_and_one_exchange_is_decoded(client: Client, top: Top) -> None:
    watching = client.watch('topic == "orders"')
    assert next(watching)["exchanges"] == 0
    assert top.is_asked
    for number, topic in enumerate(("orders", "other")):
        top.take(produce(number, topic))
    # a line may have been on its way
    assert 1 in {next(watching)["exchanges"] for _ in range(2)}
    (line,) = client.exchanges('topic == "orders"', 10)
    assert line["id"] == f"{SESSION}/1/e0"
    assert client.exchange(line["id"])["id"] == line["id"]


def test_nodes_are_those_of_the_metrics_and_without_a_recorder_nothing_is_lost(client: Client) -> None:
    state = client.state()
    assert (state.nodes["2"].is_up, state.nodes["2"].since) == (False, 1000.5)
    assert state.recording == Recording()


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ({"gaps": 2, "dropped_bytes": 3000, "failed": 1.0, "stopped": 0.0}, Recording(2, 3000, is_broken=True)),
        ({"gaps": 0, "dropped_bytes": 0, "failed": 0.0, "stopped": 1.0}, Recording(is_stopped=True)),
        ({"live_gaps": 2, "live_dropped_bytes": 3000}, Recording(2, 3000)),
    ],
)
def test_what_the_recorder_has_lost_is_told_by_the_metrics(numbers: dict[str, float], told: Recording) -> None:
    page = admin_app(
        registry([ClusterNumbers("main", Traffic(), list)], lambda: numbers), lambda: (True, ""), lambda: (True, "")
    )
    with serve_admin(page, "127.0.0.1", 0) as admin:
        assert Client(Address(admin.host, admin.port), TOKEN).state().recording == told


def test_a_wrong_filter_is_told_with_its_place(client: Client) -> None:
    with pytest.raises(WrongFilter, match="no operator") as error:
        next(client.watch("topic = x"))
    assert error.value.at == 6


def test_without_the_right_token_there_is_a_sentence_that_says_what_would_be_right(client: Client) -> None:
    other = Client(client.address, "another-token-0123")
    with pytest.raises(NoAnswer, match=r"live\.token_file"):
        other.exchanges("", 1)
    with pytest.raises(NoAnswer, match="not kept here"):
        client.exchange("s/1/e1")


def test_a_proxy_without_a_token_says_so(tmp_path: Path) -> None:
    page = admin_app(counted(), lambda: (True, ""), lambda: (True, ""))
    with serve_admin(page, "127.0.0.1", 0) as admin:
        client = Client(Address(admin.host, admin.port), TOKEN)
        with pytest.raises(NoAnswer, match="nobody may watch it"):
            next(client.watch(""))
    with pytest.raises(NoAnswer, match="does not answer"):
        next(client.watch(""))


def test_a_server_that_is_no_proxy_is_a_sentence() -> None:
    def page(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/html")])
        return [b"<html>Welcome</html>\n"]

    with serve_admin(page, "127.0.0.1", 0) as admin:
        client = Client(Address(admin.host, admin.port), TOKEN)
        with pytest.raises(NoAnswer, match="no page of metrics"):
            client.state()
        with pytest.raises(NoAnswer, match="ended in the middle"):
            next(client.watch(""))


@pytest.mark.parametrize(
    "told",
    [
        b"x" * 5000,
        b"[" * 3000,
        b'kafka_wiretap_node_up{other="1"} 1\n',
        b'kafka_wiretap_node_connections{node="1"} +Inf\n',
        b'kafka_wiretap_node_connections{node="1"} NaN\n',
        b"\xff\n",
    ],
)
def test_a_server_that_tells_too_much_or_garbage_is_a_sentence(monkeypatch: pytest.MonkeyPatch, told: bytes) -> None:
    monkeypatch.setattr(client_module, "MOST", 4000)

    def page(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [("Content-Type", "application/json")])
        return [told]

    with serve_admin(page, "127.0.0.1", 0) as admin:
        client = Client(Address(admin.host, admin.port), TOKEN)
        for ask in (client.state, lambda: next(client.watch("")), lambda: client.exchange("s/1/e1")):
            with pytest.raises(NoAnswer):
                ask()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["127.0.0.1", "--token-file", "token"], "right would be"),
        (["https://127.0.0.1:1", "--token-file", "token"], "is no URL of a proxy's metrics"),
        (["10.0.0.5:9464", "--token-file", "token"], "the token would pass in clear"),
        (["http://wiretap.example:9464", "--token-file", "token"], "the token would pass in clear"),
        (["127.0.0.1:1"], "Missing option '--token-file' (env var: 'KAFKA_WIRETAP_LIVE__TOKEN_FILE')."),
        (["127.0.0.1:1"], "Right would be --token-file FILE"),
        (["127.0.0.1:1", "--token-file", "nothing"], "can't be read"),
        (["127.0.0.1:1", "--token-file", "short"], "holds no token"),
        (["127.0.0.1:1", "topic =", "--token-file", "token"], "no operator"),
        (["127.0.0.1:1", "--token-file", "token"], "there is none; right would be kafka-wiretap inspect exchanges"),
    ],
)
def test_a_wrong_argument_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("token").write_text(TOKEN)
    Path("short").write_text("x")
    done = CliRunner().invoke(main, ["top", *arguments])
    assert done.exit_code == 2
    assert sentence in " ".join(done.output.split())


def test_a_closed_standard_input_is_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="there is none"):
        command.top.main(["127.0.0.1:1", "--token-file", str(tmp_path / "token")], standalone_mode=False)
