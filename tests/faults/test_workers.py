"""Tests of several workers as users run them: when some or all are killed, the others' connections go on."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import METADATA
from recorder.capture import frames as c
from recorder.capture import session as sessions
from tests.brokers.mock import MockCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.faults.live import HOST, OWN_PORT, Client, LiveProxy, Load, Where, broker, mixed, read_frame
from tests.faults.live import request as asks
from tests.faults.two_workers import (
    SMALL,
    assert_recorded,
    clients_of,
    closed,
    connected,
    log_of,
    running,
    until_shared,
    worker_of,
)
from tests.recorder.capture.looks import event_rows, frame_rows
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real


def test_connections_spread_over_the_workers_and_one_page_counts_them_all(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        nodes = proxy.nodes()
        clients = connected(proxy.listening) + connected(nodes[1])
        until_shared(proxy, clients)
        # the client that asked for the nodes has left, and its exchange counts
        wait_for(lambda: proxy.metric("connections") == len(clients), "its connection's end")
        wait_for(lambda: proxy.metric("exchanges_total") == len(clients) + 1, "all to be counted")
        assert proxy.metric("workers") == 2
        assert proxy.metric("worker_ends_total") == 0
        closed(*clients)
        wait_for(lambda: not proxy.metric("connections"), "the connections' ends")
        spread = Counter(worker_of(client.name, tmp_path) for client in clients)
        assert set(spread) == {"1", "2"}
        assert min(spread.values()) > len(clients) // 5
        assert proxy.stop() == 0


def test_numbers_of_connections_are_unique_over_workers_and_what_follows_them(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        first = connected(proxy.listening, 20)
        wait_for(lambda: not proxy.metric("recorder_queue_bytes"), "the log")
        for worker in proxy.workers():
            worker.kill()
        dead = [worker.pid for worker in psutil.Process(proxy.process.pid).children()]
        closed(*first)
        proxy.workers(other_than=dead)
        closed(*connected(proxy.listening, 20))
        assert proxy.stop() == 0
        capture = tmp_path / "capture"
        wait_for(lambda: not sessions.sessions(capture), "the sessions' ends")
        numbers = [row["connection"] for row in event_rows(capture, "opened")]
        assert len(numbers) == len(set(numbers)) == 40
        assert {number // 10**12 for number in numbers} <= {1, 2, 3, 4}


@pytest.mark.parametrize("seed", mostly_long(range(2), usual=1))
def test_a_killed_worker_takes_only_its_own_connections_and_nothing_is_lost_or_doubled(
    seed: int, tmp_path: Path
) -> None:
    folder = tmp_path / "capture"
    with running(tmp_path) as proxy:
        nodes = [*proxy.nodes().values()]
        loads = [Load([node] * 3, SMALL, seed) for node in (*nodes, proxy.listening)]
        loads[0].reach(300_000)

        def is_shared() -> bool:
            names = {talk.client for load in loads for talk in load.talks}
            if all(names & clients_of(worker) for worker in proxy.workers()):
                return True
            loads.append(Load([proxy.listening] * 3, SMALL, seed))
            return False

        # on a busy machine a worker may miss its turns
        wait_for(is_shared, "each worker to have some of them")
        victim, other = random.Random(seed).sample(proxy.workers(), 2)
        victim.kill()
        # The other worker's connections continue, and new ones also reach the new worker.
        proxy.workers(other_than=[victim.pid])
        wait_for(lambda: proxy.metric("workers") == 2, "the new worker")
        for load in loads:
            load.stop()
        assert other.is_running()
        assert proxy.metric("worker_ends_total") == 1
        talks = [talk for load in loads for talk in load.talks]
        went_on = [talk for talk in talks if talk.answered == len(talk.sent)]
        cut_off = [talk for talk in talks if talk.answered < len(talk.sent)]
        assert went_on
        assert cut_off
        wait_for(lambda: not proxy.metric("connections"), "the connections' ends")
        assert proxy.metric("connections_closed_total") == proxy.metric("connections_opened_total")
        again = connected(proxy.listening, 20)
        until_shared(proxy, again)
        assert {worker.pid for worker in proxy.workers()} & {other.pid}
        # the third worker took the killed one's place
        wait_for(lambda: proxy.metric("worker_connections", 'worker="3"') > len(again) // 5, "its connections' count")
        closed(*again)
        assert proxy.stop() == 0
    wait_for(lambda: not sessions.sessions(folder), "the sessions' ends")
    assert len({row[c.SESSION] for row in event_rows(folder, "session")}) == 3
    # the kernel gives a port that was cut off to a later client
    later = {client.name for client in again}
    rows = [row for row in frame_rows(folder) if row["client"] not in later]
    for talk in went_on:
        assert_recorded(rows, talk, talk.answered)
    for talk in cut_off:
        assert_recorded(rows, talk, 0)
    assert event_rows(folder, "gap") == []


@pytest.mark.long
def test_no_counter_of_the_page_falls_while_workers_are_killed(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        nodes = [*proxy.nodes().values()]
        with Scrapes(proxy) as scrapes:
            for _ in range(3):
                load = Load([*nodes, proxy.listening] * 2, SMALL, batches=5)
                load.reach(100_000)
                victim, *_ = proxy.workers()
                victim.kill()
                proxy.workers(other_than=[victim.pid])
                load.stop()
            closed(*connected(proxy.listening, 10))
        assert scrapes.count > 10
        assert scrapes.fallen == {}
        assert proxy.stop() == 0


class Scrapes:
    """Successive metrics pages. `fallen`: counters that fell, with both values."""

    def __init__(self, proxy: LiveProxy) -> None:
        self.count = 0
        self.fallen: dict[str, tuple[float, float]] = {}
        self._proxy = proxy
        self._most: dict[str, float] = {}
        self._ended = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Scrapes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()

    def _run(self) -> None:
        while not self._ended:
            families = text_string_to_metric_families(self._proxy.page())
            of_counters = (one for one in families if one.name.startswith("kafka") and one.type != "gauge")
            now = {f"{one.name}{one.labels}": one.value for family in of_counters for one in family.samples}
            both = {name: (most, now.get(name, 0)) for name, most in self._most.items()}
            self.fallen |= {name: values for name, values in both.items() if values[1] < values[0]}
            self._most = now
            self.count += 1


def test_a_stop_while_a_worker_begins_is_a_stop_like_any_other(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        closed(*connected(proxy.listening, 2))
        first, other = proxy.workers()
        first.kill()
        proxy.workers(other_than=[first.pid])
        assert proxy.stop() == 0
        assert not other.is_running()
    assert not [line for line in log_of(tmp_path) if "Traceback" in line]


def test_a_node_that_one_worker_names_is_reached_through_all_at_once(tmp_path: Path) -> None:
    with MockCluster(3) as cluster:
        host, _, port = cluster.bootstrap.split(",")[0].rpartition(":")
        with running(tmp_path, upstream=(host, int(port))) as proxy:
            named = nodes_of(proxy.listening, 3)
            for where in (*named.values(), *named.values()):
                # Each listener answers for the whole cluster.
                assert nodes_of(where, 3) == named
            assert proxy.stop() == 0


def nodes_of(where: Where, count: int) -> dict[int, Where]:
    with socket.create_connection(where, PATIENCE, OWN_PORT) as sock, sock.makefile("rb") as stream:
        sock.sendall(framed(catalog.encode_request(METADATA, 9, 7, "asks", {"topics": []})))
        decoded = catalog.decode_response(read_frame(stream), METADATA, 9)
    assert isinstance(decoded, tuple)
    found = {one["node_id"]: (one["host"], one["port"]) for one in decoded[1]["brokers"]}
    assert len(found) == count
    return found


def test_sigterm_lets_what_is_in_flight_finish(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        load = Load([*proxy.nodes().values()] * 4, mixed((5,), 3))
        load.reach(10_000)
        workers = proxy.workers()
        assert proxy.stop() == 0
        load.stop()
        assert not any(worker.is_running() for worker in workers)
    wait_for(lambda: not sessions.sessions(tmp_path / "capture"), "the sessions' ends")
    rows = frame_rows(tmp_path / "capture")
    for talk in load.talks:
        kinds = Counter(row["kind"] for row in rows if row["client"] == talk.client)
        # Every request that the proxy read was answered, and the client has the answers.
        assert kinds["request"] == kinds["response"] == talk.answered


@contextmanager
def silent_broker() -> Iterator[Where]:
    """A broker that accepts connections and never answers."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()


def test_the_exit_code_is_1_if_the_drain_deadline_cuts_a_connection(tmp_path: Path) -> None:
    with silent_broker() as upstream, running(tmp_path, "--drain", "0.2", upstream=upstream) as proxy:
        client = asking(proxy)
        assert proxy.stop() == 1
        client.close()


@pytest.mark.long
def test_a_second_signal_hurries_all(tmp_path: Path) -> None:
    with silent_broker() as upstream, running(tmp_path, "--drain", "600", upstream=upstream) as proxy:
        client = asking(proxy)
        for count in (1, 2):
            proxy.process.send_signal(signal.SIGTERM)
            wait_for(partial(has_heard, tmp_path, count), "the signal to be heard")
        assert proxy.process.wait(PATIENCE) == 1
        client.close()


def has_heard(folder: Path, count: int) -> bool:
    return heard(folder) == count


def heard(folder: Path) -> int:
    """Returns how many SIGTERMs the parent got."""
    return sum(" signal=SIGTERM" in line for line in log_of(folder))


def asking(proxy: LiveProxy) -> Client:
    """Returns a client whose request the broker has and never answers."""
    client = Client(proxy.listening)
    client.sock.sendall(asks(random.Random(0), 0, 5))
    wait_for(lambda: proxy.metric("connections") and proxy.metric("recorder_bytes_total"), "the request")
    return client


def test_a_ctrl_c_at_the_terminal_stops_all_of_them(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        clients = connected(proxy.listening, 4)
        workers = proxy.workers()
        os.killpg(proxy.process.pid, signal.SIGINT)
        assert proxy.process.wait(PATIENCE) == 0
        assert not any(worker.is_running() for worker in workers)
        closed(*clients)


@pytest.mark.long
def test_a_signal_to_every_process_at_once_is_one_stop(tmp_path: Path) -> None:
    with silent_broker() as upstream, running(tmp_path, "--drain", "0.5", upstream=upstream) as proxy:
        client = asking(proxy)
        for process in (*proxy.workers(), proxy.process):
            process.send_signal(signal.SIGTERM)
        # No second signal came: the drain deadline has passed.
        assert proxy.process.wait(PATIENCE) == 1
        client.close()


def test_workers_end_with_a_parent_that_is_killed_and_the_next_proxy_has_the_ports(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        clients = connected(proxy.listening, 10)
        workers = proxy.workers()
        proxy.kill()
        _, left = psutil.wait_procs(workers, timeout=PATIENCE)
        assert left == []
        # The idle connections ended in order.
        assert [client.stream.read() for client in clients] == [b""] * len(clients)
        closed(*clients)
        with broker() as upstream:
            port = str(proxy.listening[1])
            again = LiveProxy(upstream, tmp_path / "capture", tmp_path / "again.log", "--listen", f"{HOST}:{port}")
            try:
                closed(*connected(again.listening, 2))
            finally:
                again.kill()
        # The next proxy's own session may be left.
        wait_for(lambda: len(sessions.sessions(tmp_path / "capture")) <= 1, "the end of what the workers had begun")


def test_a_second_proxy_on_the_same_ports_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as proxy, broker() as upstream:
        listen, up = (f"{HOST}:{where[1]}" for where in (proxy.listening, upstream))
        program = [sys.executable, "-c", "from proxy.cli import main; main()", "proxy", "--upstream", up]
        second = [*program, "--listen", listen, "--workers", "2", "--state", str(tmp_path / "second")]
        refused = subprocess.run(second, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert refused.returncode == 2
        assert f"--listen {listen} can't be had" in refused.stderr
        closed(*connected(proxy.listening, 4))


def test_a_worker_that_is_told_to_stop_drains_and_is_replaced(tmp_path: Path) -> None:
    with running(tmp_path) as proxy:
        clients = connected(proxy.listening, 20)
        until_shared(proxy, clients)
        first, other = proxy.workers()
        first.terminate()
        first.wait(PATIENCE)
        proxy.workers(other_than=[first.pid])
        served = [client.is_served() for client in clients]
        assert any(served)
        assert not all(served)
        assert other.is_running()
        closed(*clients)
        assert proxy.stop() == 0


def test_an_unwritable_capture_is_reported_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    program = [sys.executable, "-c", "from proxy.cli import main; main()", "proxy", "--upstream", f"{HOST}:1"]
    flags = ["--listen", f"{HOST}:0", "--workers", "2", "--record", str(tmp_path / "file" / "capture")]
    refused = subprocess.run([*program, *flags], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert refused.returncode == 2
    assert "--record" in refused.stderr


def test_settings_that_change_reach_every_worker(tmp_path: Path) -> None:
    file = tmp_path / "wiretap.toml"
    file.write_text('[log]\nlevel = "info"\n')
    with broker() as upstream:
        # The file sets the log's level, flags the rest.
        proxy = LiveProxy(
            upstream, tmp_path / "capture", tmp_path / "proxy.log", "--workers", "2", "--config", str(file)
        )
        try:
            file.write_text('[log]\nlevel = "debug"\n')
            proxy.process.send_signal(signal.SIGHUP)
            again = "settings were read again"
            wait_for(lambda: sum(again in line for line in log_of(tmp_path)) == 3, "all to read them")
            clients = connected(proxy.listening, 10)
            closed(*clients)
            # A pipe without a writer is not waited for.
            file.unlink()
            os.mkfifo(file)
            proxy.process.send_signal(signal.SIGHUP)
            stays = "settings stay as they are"
            wait_for(lambda: any(stays in line for line in log_of(tmp_path)), "it to be refused")
            spoke = "debug connection closed  worker="
            wait_for(lambda: sum(spoke in line for line in log_of(tmp_path)) == 10, "what is logged now")
            assert proxy.stop() == 0
        finally:
            proxy.kill()
