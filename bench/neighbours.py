"""`python -m bench.neighbours`: how long one connection waits while others flood the proxy with frames.

The measured connection sends small requests, one after the other, to a broker of its own; its neighbours send a flood
to another broker of the same proxy. The result for each flood is the measured connection's longest wait for an answer,
in milliseconds, and the 99th percentile. The row without a flood shows the noise of the machine.
"""

import argparse
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from bench.console import say, say_machine
from bench.contenders import KAFKA_WIRETAP, LISTENING, METRICS_ON
from bench.processes import ROOT, build, compacted, running
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, HEARTBEAT, METADATA
from tests.certificates import Authority
from tests.recorder.capture.floods import short, token

HOST = "127.0.0.1"
VENDOR, FETCH_07 = 10_001, b"\0\1"
# how long a connection may stay without a byte until its flood is taken for over
QUIET_SECONDS = 1.0
# seconds of measuring without a flood
ALONE_SECONDS = 2.0

SETTINGS = """
metrics = "{host}:0"
drain = "1s"
{capture}
[clusters.quiet]
upstream = ["{broker}"]
listen = "{host}:0"
[clusters.plain]
upstream = ["{broker}"]
listen = "{host}:0"
[clusters.tls]
upstream = ["{broker}"]
listen = "{host}:0"
tls.certificate = "{certificate}"
[clusters.old]
upstream = ["{old}"]
listen = "{host}:0"
dialect = "kafka-0.7"
"""
CLUSTERS = ("quiet", "plain", "tls", "old")
PING = framed(catalog.encode_request(HEARTBEAT, 4, 7, "one", {"group_id": "g", "generation_id": 1, "member_id": "m"}))

Frames = Callable[[int], bytes]


class Flood(NamedTuple):
    """Frames, each with its number, over one of the listeners."""

    name: str
    frame: Frames
    listener: str = "plain"

    def data(self, size: int) -> bytes:
        """About so many bytes of them."""
        count = size // len(self.frame(0))
        return b"".join(map(self.frame, range(count)))


FLOODS = (
    Flood("small known requests", lambda number: short(HEARTBEAT, 0, number)),
    Flood("tokens of 1 byte", token),
    Flood("unknown requests", lambda number: short(VENDOR, 0, number)),
    Flood("requests that the proxy answers", lambda number: short(API_VERSIONS, 0x7F00, number, b"\0")),
    Flood("answers that name brokers", lambda number: short(METADATA, 1, number, b"\0\0\0\0")),
    Flood("small known requests, TLS", lambda number: short(HEARTBEAT, 0, number), "tls"),
    Flood("tokens of 1 byte, TLS", token, "tls"),
    Flood("fetches of Kafka 0.7", lambda number: framed(FETCH_07), "old"),
)


class Waited(NamedTuple):
    """Milliseconds that the measured connection waited for its answers."""

    longest: float
    percentile_99: float
    middle: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> "Waited":
        found = [1000 * one for one in seconds]
        return cls(max(found), quantiles(found, n=100, method="inclusive")[98], median(found))

    def __str__(self) -> str:
        return f"{self.longest:9.1f} {self.percentile_99:9.2f} {self.middle:9.3f}"


class Proxy(NamedTuple):
    """Where its listeners are."""

    ports: dict[str, int]

    def connect(self, listener: str) -> socket.socket:
        sock = socket.create_connection((HOST, self.ports[listener]), timeout=QUIET_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if listener != "tls":
            return sock
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(sock)


@contextmanager
def proxy(broker: str, old: str, folder: Path, checkout: Path, *, records: bool) -> Iterator[Proxy]:
    """A checkout's proxy. `old`: the address of the broker of Kafka 0.7."""
    folder.mkdir()
    # without the working folder, which is this checkout, the path decides before what is installed
    env = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(checkout.resolve())}
    certificate = Authority(folder).signs("proxy").path
    capture = f'[capture]\nfolder = "{folder}/capture"' if records else ""
    config, log = folder / "wiretap.toml", folder / "proxy.log"
    config.write_text(SETTINGS.format(host=HOST, broker=broker, old=old, certificate=certificate, capture=capture))
    command = (*KAFKA_WIRETAP, "proxy", "--config", config)
    with compacted(folder / "capture"), running(command, log, METRICS_ON, env):
        said = [line.split() for line in log.read_text().splitlines() if line.startswith("listening on ")]
        yield Proxy({words[-1]: int(words[2].rpartition(":")[2]) for words in said if words[-1] in CLUSTERS})


@contextmanager
def broker_07() -> Iterator[str]:
    """A broker of Kafka 0.7 that answers whatever it is asked with nothing."""
    with socket.create_server((HOST, 0)) as server:
        threading.Thread(target=_accept_07, args=(server,), daemon=True).start()
        yield f"{HOST}:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def _accept_07(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_serve_07, args=(server.accept()[0],), daemon=True).start()


def _serve_07(sock: socket.socket) -> None:
    request, answer = len(framed(FETCH_07)), framed(b"\0\0")
    have = 0
    with sock, suppress(OSError):
        while chunk := sock.recv(1 << 18):
            have += len(chunk)
            sock.sendall(answer * (have // request))
            have %= request


def _flood(proxy: Proxy, listener: str, data: bytes) -> None:
    """Sends it all, and reads until nothing more comes."""
    with proxy.connect(listener) as sock, suppress(OSError):
        sender = threading.Thread(target=_send, args=(sock, data), daemon=True)
        sender.start()
        while sock.recv(1 << 18):
            pass


def _send(sock: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        sock.sendall(data)


def measure(proxy: Proxy, flood: Flood | None, connections: int, size: int) -> Waited:
    """The measured connection's waits while so many other connections send `size` bytes each."""
    floods = []
    if flood is not None:
        data = flood.data(size)
        floods = [threading.Thread(target=_flood, args=(proxy, flood.listener, data)) for _ in range(connections)]
    with proxy.connect("quiet") as one:
        one.settimeout(60)
        _ask(one, 100)
        for thread in floods:
            thread.start()
        until = time.monotonic() + (0 if floods else ALONE_SECONDS)
        found: list[float] = []
        while any(thread.is_alive() for thread in floods) or time.monotonic() < until:
            found += _ask(one, 10)
    return Waited.of(found)


def _ask(one: socket.socket, times: int) -> list[float]:
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        one.sendall(PING)
        size = struct.unpack(">i", one.recv(4, socket.MSG_WAITALL))[0]
        one.recv(size, socket.MSG_WAITALL)
        found.append(time.perf_counter() - begun)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.neighbours", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--kib", type=int, default=1024, help="what each of them sends")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose proxy it is (default: this one's)")
    parser.add_argument("--only", default="", help="floods whose names hold this")
    asked = parser.parse_args(arguments)
    say_machine()
    print(f"{'ms, medians of the rounds':44} {'longest':>9} {'99 %':>9} {'middle':>9}")
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        broker = stack.enter_context(running([build(folder).broker], folder / "broker.log", LISTENING))
        old = stack.enter_context(broker_07())
        for records in (False, True):
            where = folder / f"records-{records}"
            upstream = f"{broker.said[1]}:{broker.said[2]}"
            way = stack.enter_context(proxy(upstream, old, where, asked.checkout, records=records))
            for flood in (None, *(flood for flood in FLOODS if asked.only in flood.name)):
                rounds = [measure(way, flood, asked.connections, asked.kib * 1024) for _ in range(asked.rounds)]
                middle = Waited(*map(median, zip(*rounds, strict=True)))
                label = (flood.name if flood else "nobody") + (", recording" if records else "")
                say(f"{label:44} {middle}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
