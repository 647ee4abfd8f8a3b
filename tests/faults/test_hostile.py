"""Tests of garbage on every listener: thousands of connections, and five thousand at once.

Meanwhile, a correct client of the same listener must be served. Afterwards all is as before: no open descriptor, memory
within the bound, no metric chosen by a peer, a handful of lines in the log, and no stack trace.
"""

import re
import resource
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.conversation import Cause, OpaqueReason
from proxy.metrics.errors import UnreadReason
from proxy.metrics.nodes import DialFailure
from proxy.wire import apis, catalog
from proxy.wire.error_codes import ERRORS
from proxy.wire.framing import framed
from proxy.wire.keys import HEARTBEAT, METADATA
from recorder.capture.selection import LeftOutBy
from tests.brokers.children import spawn, stop
from tests.brokers.waiting import PATIENCE, wait_for
from tests.certificates import Authority
from tests.faults.live import HOST, NODES, ROOT, answer, read_frame
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

LISTENERS = ("bootstrap", "node", "tls", "sni", "balanced", "admin")
# Bad connections to each listener (in the short and the long test), and how many of them at a time.
GARBAGE, LONG_GARBAGE, AT_A_TIME = 500, 10_000, 200
AT_ONCE = 5000
# Seconds within which a busy machine accepts the crowd.
CROWD_PATIENCE = 240
# Descriptors besides those of connections: listeners, log, capture.
FILES = 500
# The bounds of docs/proxy/faults.md, "Hostile bytes": 120 MB, and 50 kB for each open connection.
MB = 1_000_000
MAX_RESIDENT, MAX_OF_ONE = 120 * MB, 50_000
# The most lines in the log: a `LogThrottle` passes a few a minute for each cluster and event.
MAX_LINES = 300

SETTINGS = """
metrics = "{host}:0"
drain = "20s"
[capture]
folder = "{folder}/capture"
spool = "64MiB"
keep.free = 0
[clusters.plain]
upstream = ["{host}:{broker}"]
listen = "{host}:0"
timeouts.half_close = "3s"
[clusters.tls]
upstream = ["{host}:{broker}"]
listen = "{host}:0"
timeouts.half_close = "3s"
tls.certificate = "{certificate}"
[clusters.sni]
upstream = ["{host}:{broker}"]
listen = "{host}:0"
mapping = "sni"
advertise = "b{{node_id}}.proxy.test:9093"
bootstrap_name = "boot.proxy.test"
timeouts.half_close = "3s"
tls.certificate = "{certificate}"
[clusters.balanced]
upstream = ["{host}:{broker}"]
listen = "{host}:0"
proxy_protocol.accept = true
timeouts.half_close = "3s"
"""
CLUSTERS = ("plain", "tls", "sni", "balanced")
ENVIRONMENT = {"PYTHONPATH": str(ROOT)}


def crowd(*arguments: object) -> "subprocess.Popen[str]":
    """Starts `tests.faults.crowd`; its pipes carry lines."""
    command = [sys.executable, "-m", "tests.faults.crowd", *map(str, arguments)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return spawn(command, env=ENVIRONMENT, cwd=ROOT, text=True, **pipes)


def says(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


class Proxy:
    """A recording proxy with every kind of listener."""

    def __init__(self, folder: Path, broker: int) -> None:
        self.certificate = Authority(folder).signs("proxy", "boot.proxy.test", "b1.proxy.test", HOST).path
        config, self._output = folder / "wiretap.toml", folder / "proxy.log"
        config.write_text(SETTINGS.format(host=HOST, broker=broker, folder=folder, certificate=self.certificate))
        command = [sys.executable, "-c", "from proxy.cli import main; main()", "proxy", "--config", str(config)]
        self.process = spawn(command, output=self._output, env=ENVIRONMENT, cwd=ROOT)
        self.metrics = self._told(r"metrics on (\S+)")
        found = {name: int(self._told(rf"listening on \S+:(\d+) for {name}")) for name in CLUSTERS}
        self.ports = found | {"bootstrap": found["plain"], "admin": int(self.metrics.split(":")[2].partition("/")[0])}
        with self.client("bootstrap") as (sock, stream):
            sock.sendall(framed(catalog.encode_request(METADATA, 9, 7, "asks", {"topics": []})))
            decoded = catalog.decode_response(read_frame(stream), METADATA, 9)
        assert isinstance(decoded, tuple)
        self.ports["node"] = next(one["port"] for one in decoded[1]["brokers"] if one["node_id"] == NODES[0])

    def _told(self, what: str) -> str:
        def found() -> str:
            match = re.search(what, self._output.read_text())
            return match[1] if match else ""

        return wait_for(
            found, what, seconds=PATIENCE, hopeless=lambda: self.log if self.process.poll() is not None else None
        )

    @contextmanager
    def client(self, kind: str) -> Iterator[tuple[socket.socket, Any]]:
        """Yields a correct client's connection."""
        sock = socket.create_connection((HOST, self.ports[kind]), PATIENCE)
        try:
            if kind == "balanced":
                sock.sendall(b"PROXY TCP4 192.0.2.1 198.51.100.1 5 6\r\n")
            if kind in ("tls", "sni"):
                context = ssl.create_default_context(cafile=self.certificate.parent / "ca.pem")
                sock = context.wrap_socket(sock, server_hostname="boot.proxy.test")
            with sock.makefile("rb") as stream:
                yield sock, stream
        finally:
            sock.close()

    def exchange(self, kind: str) -> None:
        """Connects a correct client, makes its requests and closes it."""
        if kind == "admin":
            self.page("/livez")
            return
        with self.client(kind) as (sock, stream):
            for number in range(3):
                values = {"group_id": "g", "generation_id": 1, "member_id": "m"}
                asked = framed(catalog.encode_request(HEARTBEAT, 4, number, "good", values))
                sock.sendall(asked)
                assert framed(read_frame(stream)) == answer(asked[4:])

    def page(self, path: str) -> str:
        with urllib.request.urlopen(self.metrics.replace("/metrics", path), timeout=PATIENCE) as page:
            return str(page.read().decode())

    def samples(self) -> dict[str, list[Any]]:
        families = text_string_to_metric_families(self.page("/metrics"))
        return {family.name.removeprefix("kafka_wiretap_"): family.samples for family in families}

    def connections(self) -> int:
        return int(sum(sample.value for sample in self.samples()["connections"]))

    def opened(self) -> int:
        return int(sum(sample.value for sample in self.samples()["connections_opened"]))

    @property
    def resident(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def files(self) -> int:
        return int(psutil.Process(self.process.pid).num_fds())

    @property
    def log(self) -> str:
        return self._output.read_text()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    broker = crowd("broker")
    running = Proxy(tmp_path_factory.mktemp("hostile"), int(says(broker)))
    try:
        yield running
        all_is_as_before(running)
    finally:
        running.process.kill()
        stop(running.process)
        stop(broker)


class GoodClient:
    """A correct client that connects again and again in a thread."""

    def __init__(self, proxy: Proxy, kind: str) -> None:
        self._proxy, self._kind = proxy, kind
        self.served = 0
        self.fault: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._proxy.exchange(self._kind)
                self.served += 1
        except BaseException as fault:
            self.fault = fault

    def is_served(self) -> None:
        """Waits until the client was served again."""
        before = self.served
        wait_for(lambda: self.served > before + 1, "a client to be served", seconds=PATIENCE, hopeless=self._why)

    def _why(self) -> str | None:
        return repr(self.fault) if self.fault is not None else None

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(PATIENCE)
        assert self.fault is None


def settled(proxy: Proxy) -> None:
    """Waits until every connection has ended."""
    wait_for(lambda: not proxy.connections(), "the connections' ends")


def misbehave(proxy: Proxy, kind: str, count: int) -> None:
    """Makes `count` bad connections. A correct client must be served meanwhile."""
    settled(proxy)
    files, opened = proxy.files, proxy.opened()
    others = crowd(kind, HOST, proxy.ports[kind], count, AT_A_TIME, 1)
    # The admin page serves few clients at a time and refuses the others.
    good = GoodClient(proxy, kind) if kind != "admin" else None
    try:
        if good is not None:
            good.is_served()
        assert says(others) == "done"
        if good is not None:
            good.is_served()
            good.stop()
    finally:
        stop(others)
    settled(proxy)
    if kind != "admin":
        assert proxy.opened() >= opened + count
    proxy.exchange(kind)
    settled(proxy)
    # The proxy closes a connection to a broker when its client's has ended.
    wait_for(lambda: proxy.files <= files + 5, "the descriptors")
    assert proxy.resident < MAX_RESIDENT


@pytest.mark.parametrize("kind", mostly_long(LISTENERS, {"node", "tls", "admin"}.__contains__))
def test_garbage_ends_its_own_connections_alone(proxy: Proxy, kind: str) -> None:
    misbehave(proxy, kind, GARBAGE)


@pytest.mark.long
@pytest.mark.parametrize("kind", LISTENERS)
def test_ten_thousand_on_each_listener_end_theirs_alone(proxy: Proxy, kind: str) -> None:
    misbehave(proxy, kind, LONG_GARBAGE)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_crowd_that_stays_keeps_no_correct_client_out(proxy: Proxy) -> None:
    settled(proxy)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = AT_ONCE if most == resource.RLIM_INFINITY else min(AT_ONCE, (most - FILES) // 2)
    files = proxy.files
    kinds = ("bootstrap", "node", "balanced")
    crowds = [crowd(kind, HOST, proxy.ports[kind], count // len(kinds), AT_A_TIME, 2, "hold") for kind in kinds]
    good = [GoodClient(proxy, kind) for kind in kinds]
    try:
        assert [says(one) for one in crowds] == ["held"] * len(crowds)
        held = count // len(kinds) * len(kinds)
        wait_for(lambda: proxy.connections() >= held, "the crowd", seconds=CROWD_PATIENCE)
        for one in good:
            one.is_served()
        assert proxy.resident < MAX_RESIDENT + MAX_OF_ONE * held
        for one in good:
            one.stop()
    finally:
        for each in crowds:
            stop(each)
    settled(proxy)
    wait_for(lambda: proxy.files <= files + 5, "the descriptors")


def all_is_as_before(proxy: Proxy) -> None:
    """Checks metrics and log after all tests, and that the proxy still stops in order."""
    known = {apis.api_name(key) for key in range(200)} | {"other"}
    for samples in proxy.samples().values():
        for sample in samples:
            if "api" in sample.labels:
                assert sample.labels["api"] in known
                assert re.fullmatch(r"\d{1,2}|other", sample.labels.get("version", "other"))
            assert sample.labels.get("error", "other") in {"other", *(error.name for error in ERRORS.values())}
            assert sample.labels.get("reason", "malformed") in {*OpaqueReason, *UnreadReason}
            assert sample.labels.get("cause", Cause.IDLE) in {*Cause, *DialFailure, *LeftOutBy}
            assert sample.labels.get("cluster", "plain") in CLUSTERS
    faults = [one.value for one in proxy.samples()["connections_closed"] if one.labels["cause"] == Cause.PROXY_FAULT]
    assert sum(faults) == 0
    assert proxy.page("/readyz") == "ready\n"
    assert stop(proxy.process, seconds=PATIENCE) == 0
    assert "Traceback" not in proxy.log
    assert "fault in" not in proxy.log
    assert "Exception" not in proxy.log
    lines = proxy.log.splitlines()
    events = Counter(re.sub(r"^\S+ ", "", line).split("  ")[0] for line in lines)
    assert len(lines) < MAX_LINES, events
