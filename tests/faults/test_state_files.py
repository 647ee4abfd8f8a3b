"""Tests of state files of real proxies: each proxy has its own, even if proxies are killed, restarted or ending."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from proxy.wire.keys import HEARTBEAT
from tests.brokers.ports import Reserved, reserved_range
from tests.brokers.waiting import PATIENCE, wait_for
from tests.faults.live import HOST, Client, LiveProxy, Where, answer, broker
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

WORKERS = pytest.mark.parametrize("workers", mostly_long([2, 1], usual=1))
MANY = 20_000


@contextmanager
def counting(counts: Counter[str], name: str) -> Iterator[Where]:
    """A broker that counts its requests."""

    def answering(frame: bytes, sock: socket.socket) -> bytes:
        counts[name] += 1
        return answer(frame, sock.getsockname())

    with broker(answering) as where:
        yield where


def proxy_at(port: int, upstream: Where, folder: Path, name: str, *more: str) -> LiveProxy:
    return LiveProxy(upstream, folder / "capture", folder / f"{name}.log", "--listen", f"{HOST}:{port}", *more)


@WORKERS
def test_proxies_that_record_in_one_folder_lead_no_client_to_each_others_brokers(tmp_path: Path, workers: int) -> None:
    counts: Counter[str] = Counter()
    more = ("--workers", str(workers))
    ports = [Reserved(HOST), Reserved(HOST)]
    with counting(counts, "west") as west:
        with counting(counts, "east") as east, ExitStack() as proxies:
            first, second = (
                proxies.enter_context(proxy_at(port.port, upstream, tmp_path, f"{upstream[1]}", *more))
                for port, upstream in zip(ports, (east, west), strict=True)
            )
            nodes = first.nodes()
            second.nodes()
            assert [first.stop(), second.stop()] == [0, 0]
        # The restarted proxy knows only the nodes in its file.
        before = counts["west"]
        with proxy_at(ports[0].port, east, tmp_path, "again", *more) as again:
            for where in (again.listening, nodes[1], nodes[2]):
                assert not Client(where).is_served()
            assert again.stop() == 0
        assert counts["west"] == before
    files = sorted(path.name for path in (tmp_path / "capture").iterdir() if path.suffix == ".json")
    assert files == ["_nodes.2.json", "_nodes.json"]
    owners = {json.loads((tmp_path / "capture" / name).read_text())["listener"] for name in files}
    assert owners == {f"{HOST}:{port.port}" for port in ports}


def kept_in(state: Path, port: int) -> tuple[str, ...]:
    """Options for a state file, and for nodes' ports after `port`: others could get ports that the kernel picks."""
    return ("--state", str(state), "--node-ports", str(port + 1), "--node-count", "20")


@WORKERS
def test_a_killed_proxys_file_is_the_next_ones_at_once(tmp_path: Path, workers: int) -> None:
    state = tmp_path / "nodes.json"
    with broker() as upstream, reserved_range((HOST,), 21) as port:
        more = (*kept_in(state, port), "--workers", str(workers))
        with proxy_at(0, upstream, tmp_path, "first", *more) as first:
            nodes = first.nodes()
            wait_for(state.exists, "the nodes to be kept")
        with proxy_at(0, upstream, tmp_path, "second", *more) as second:
            assert second.nodes() == nodes
            assert second.stop() == 0


def test_a_proxy_that_only_waits_for_its_last_answers_leaves_its_file_to_the_next_one(tmp_path: Path) -> None:
    came, go_on = threading.Event(), threading.Event()

    def slow(frame: bytes, sock: socket.socket) -> bytes:
        if int.from_bytes(frame[:2], "big") == HEARTBEAT:
            came.set()
            assert go_on.wait(PATIENCE)
        return answer(frame, sock.getsockname())

    with ExitStack() as stack:
        upstream, port = stack.enter_context(broker(slow)), stack.enter_context(reserved_range((HOST,), 21))
        more = (*kept_in(tmp_path / "nodes.json", port), "--drain", str(PATIENCE))
        first = stack.enter_context(proxy_at(port, upstream, tmp_path, "first", *more))
        nodes = first.nodes()
        client = Client(first.listening)
        asking = threading.Thread(target=client.exchange)
        asking.start()
        assert came.wait(PATIENCE)
        first.process.terminate()
        wait_for(lambda: not (tmp_path / "nodes.json.lock").exists(), "the first one to stop")
        with proxy_at(port, upstream, tmp_path, "second", *more) as second:
            assert first.process.poll() is None
            assert second.nodes() == nodes
            go_on.set()
            asking.join(PATIENCE)
            client.close()
            assert [first.process.wait(PATIENCE), second.stop()] == [0, 0]


@WORKERS
def test_very_many_nodes_keep_the_proxy_neither_from_listening_nor_from_stopping(tmp_path: Path, workers: int) -> None:
    state = tmp_path / "nodes.json"
    nodes = {str(number): {"upstream": f"broker-{number}.invalid:9092"} for number in range(MANY)}
    state.write_text(json.dumps({"format": 1, "nodes": nodes}))
    more = ("--state", str(state), "--workers", str(workers))
    with broker() as upstream, proxy_at(0, upstream, tmp_path, "proxy", *more) as proxy:
        client = Client(proxy.listening)
        client.exchange()
        client.close()
        assert proxy.stop() == 0
    assert len(json.loads(state.read_text())["nodes"]) == MANY


def test_a_damaged_file_is_set_aside_and_the_proxy_starts(tmp_path: Path) -> None:
    state = tmp_path / "nodes.json"
    state.write_bytes(b"\0" * 4096)
    with broker() as upstream, proxy_at(0, upstream, tmp_path, "proxy", "--state", str(state)) as proxy:
        proxy.nodes()
        assert proxy.stop() == 0
        assert "state file is damaged" in proxy.log
    assert (tmp_path / "nodes.json.damaged").read_bytes() == b"\0" * 4096
    assert len(json.loads(state.read_text())["nodes"]) == 2
