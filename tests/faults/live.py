"""Runs a recording proxy as users do, in a process of its own, between scripted clients and a scripted broker.

The clients' bytes follow from a seed, and the broker's responses from the requests. So the requests alone determine
both streams of a connection, even if a process was killed.
"""

import os
import random
import socket
import socketserver
import struct
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import API_VERSIONS, HEARTBEAT, METADATA, PRODUCE
from tests.brokers.children import spawn, stop
from tests.brokers.waiting import PATIENCE, wait_for
from tests.servers import serving

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
# address to bind to before connecting: then the kernel may use its own port for connections to several destinations
OWN_PORT = (HOST, 0)
NODES = (1, 2)
OFFERED = {PRODUCE: 9, METADATA: 12, HEARTBEAT: 4, API_VERSIONS: 3}

Where = tuple[str, int]


def answer(frame: bytes, here: Where = (HOST, 0)) -> bytes:
    """Returns the response to a request (frame without its length), with its length."""
    key, version, correlation_id = struct.unpack_from(">hhi", frame)
    values: dict[str, Any] = {}
    if key == API_VERSIONS:
        values["api_keys"] = [{"api_key": key, "min_version": 0, "max_version": most} for key, most in OFFERED.items()]
    elif key == METADATA:
        values["brokers"] = [{"node_id": node, "host": here[0], "port": here[1]} for node in NODES]
    elif key == HEARTBEAT:
        values["error_code"] = correlation_id % 100
    return framed(catalog.encode_response(key, version, correlation_id, values))


# an api key outside Kafka's; the response has the requested number of MiB
LARGE = 12_345
_LARGE = struct.Struct(">hhihH")


def large_request(number: int, mebibytes: int) -> bytes:
    """Returns a request that `large_answer` answers."""
    return framed(_LARGE.pack(LARGE, 0, number, -1, mebibytes))


def large_answer(frame: bytes) -> bytes | None:
    """Returns the response to such a request; None for another request."""
    if int.from_bytes(frame[:2], "big") != LARGE:
        return None
    _, _, number, _, mebibytes = _LARGE.unpack_from(frame)
    return framed(number.to_bytes(4, "big") + random.Random(number).randbytes(1024 * 1024) * mebibytes)


def read_frame(stream: Any) -> bytes:
    """Returns the next frame without its length. Raises EOFError if the stream ends before it does."""
    head = stream.read(4)
    frame = stream.read(int.from_bytes(head, "big")) if len(head) == 4 else b""
    if len(head) < 4 or len(frame) < int.from_bytes(head, "big"):
        raise EOFError
    return bytes(frame)


# returns a broker's response to a frame from a socket
Answering = Callable[[bytes, socket.socket], bytes]


class _Connection(socketserver.StreamRequestHandler):
    server: "_Server"
    disable_nagle_algorithm = True

    def handle(self) -> None:
        try:
            while True:
                self.wfile.write(self.server.answering(read_frame(self.rfile), self.connection))
        except (EOFError, OSError):
            return


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    # many clients connect at once
    request_queue_size = 4096
    answering: Answering


def _answers(frame: bytes, sock: socket.socket) -> bytes:
    return answer(frame, sock.getsockname())


@contextmanager
def broker(answering: Answering = _answers) -> Iterator[Where]:
    """A broker in place of all nodes. While `answering` runs, the connection is not read."""
    server = _Server((HOST, 0), _Connection)
    server.answering = answering
    with serving(server) as port:
        yield HOST, port


def _memory(pid: int, which: str) -> int:
    """Source: Linux's proc(5), `status`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))


def child_of(proxy: int, module: str, other_than: int = 0) -> psutil.Process:
    """The process that a proxy has started and that runs this module; waits until there is one."""

    def is_it(one: psutil.Process) -> bool:
        # one that has just ended says nothing of itself
        with suppress(psutil.NoSuchProcess):
            return one.pid != other_than and module in one.cmdline()
        return False

    return wait_for(lambda: [one for one in psutil.Process(proxy).children() if is_it(one)], module)[0]


class LiveProxy:
    """`kafka-wiretap proxy --record`, ready for connections."""

    def __init__(
        self, upstream: Where, folder: Path, output: Path, *more: str, env: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        flags = ["--upstream", f"{HOST}:{upstream[1]}", "--listen", f"{HOST}:0", "--metrics", f"{HOST}:0"]
        program = [sys.executable, "-c", "from proxy.cli import main; main()", "proxy"]
        self._output = output
        self.process = spawn(
            [*program, *flags, "--record", str(folder), *more],
            output=output,
            env=os.environ | {"PYTHONPATH": str(ROOT), **env},
            cwd=ROOT,
        )
        metrics = self._told("metrics on ")
        self.listening = HOST, int(self._told("listening on ").rpartition(":")[2])
        self._metrics = metrics

    def _told(self, what: str) -> str:
        def line() -> str:
            lines = self._output.read_text().splitlines()
            return next((line.removeprefix(what) for line in lines if line.startswith(what)), "")

        return wait_for(line, what, hopeless=lambda: self._output.read_text() if self.process.poll() else None)

    @property
    def log(self) -> str:
        """The log so far."""
        return self._output.read_text()

    def page(self) -> str:
        """The metrics page."""
        with urllib.request.urlopen(self._metrics, timeout=PATIENCE) as page:
            return str(page.read().decode())

    def is_ready(self) -> bool:
        """The answer of /readyz."""
        return not self.not_ready()

    def metric(self, name: str, label: str = "") -> float:
        """The sum of a metric over its labels, or over the samples with this label (`cause="idle"`)."""
        lines = self.page().split("\n")
        found = [line.rpartition(" ") for line in lines if line.startswith(f"kafka_wiretap_{name}") and label in line]
        return sum(float(value) for key, _, value in found if key.partition("{")[0] == f"kafka_wiretap_{name}")

    def not_ready(self) -> str:
        """The faults in /readyz; empty if it is ready."""
        return self._wrong("/readyz")

    def not_alive(self) -> str:
        """The faults in /livez; empty if all is well."""
        return self._wrong("/livez")

    def _wrong(self, path: str) -> str:
        try:
            with urllib.request.urlopen(self._metrics.replace("/metrics", path), timeout=PATIENCE):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode()

    @property
    def resident(self) -> int:
        """The process's memory in bytes at present."""
        return _memory(self.process.pid, "VmRSS")

    @property
    def most_resident(self) -> int:
        """The process's highest memory."""
        return _memory(self.process.pid, "VmHWM")

    @property
    def files(self) -> int:
        """The number of its open files."""
        return int(psutil.Process(self.process.pid).num_fds())

    def nodes(self) -> dict[int, Where]:
        """The addresses that clients are told, by node."""
        with socket.create_connection(self.listening, PATIENCE, OWN_PORT) as sock, sock.makefile("rb") as stream:
            sock.sendall(framed(catalog.encode_request(METADATA, 9, 7, "asks", {"topics": []})))
            decoded = catalog.decode_response(read_frame(stream), METADATA, 9)
        assert isinstance(decoded, tuple)
        return {one["node_id"]: (one["host"], one["port"]) for one in decoded[1]["brokers"]}

    def compactor(self, other_than: int = 0) -> psutil.Process:
        """The compactor's process; waits until there is one."""
        return child_of(self.process.pid, "recorder.capture.compactor", other_than)

    def shipper(self, other_than: int = 0) -> psutil.Process:
        """The process that ships; waits until there is one."""
        return child_of(self.process.pid, "recorder.shipping.process", other_than)

    def workers(self, other_than: Collection[int] = (), count: int = 2) -> list[psutil.Process]:
        """The workers' processes, once there are so many."""

        def running() -> list[psutil.Process]:
            children = psutil.Process(self.process.pid).children()
            found = [one for one in children if one.pid not in other_than and "proxy.worker" in one.cmdline()]
            return found if len(found) >= count else []

        return wait_for(running, "the workers")

    def __enter__(self) -> "LiveProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        return stop(self.process, seconds=PATIENCE)


class Client:
    """A client that sends one request at a time. `receives`: the size of the socket's receive buffer."""

    def __init__(self, where: Where, receives: int = 0) -> None:
        self.sock = socket.socket()
        self.sock.bind(OWN_PORT)
        if receives:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(where)
        self.stream = self.sock.makefile("rb")
        self.name = "{}:{}".format(*self.sock.getsockname())
        self.asked = 0

    def exchange(self) -> None:
        sent = request(random.Random(self.asked), self.asked, 5)
        self.asked += 1
        self.sock.sendall(sent)
        assert framed(read_frame(self.stream)) == answer(sent[4:])

    def is_served(self) -> bool:
        try:
            self.exchange()
        except (EOFError, OSError):
            return False
        return True

    def close(self) -> None:
        self.stream.close()
        self.sock.close()


@contextmanager
def stopped_behind(proxy: LiveProxy) -> Iterator[LiveProxy]:
    """Stops the proxy in order after the block, or at once if the block fails."""
    with proxy:
        yield proxy
        code = proxy.stop()
        # 1: done in part
        assert code == int("traffic was not recorded" in proxy.log)


@dataclass
class Talk:
    """One connection: the requests that were sent (with their lengths), and the number of responses so far."""

    client: str
    sent: list[bytes] = field(default_factory=list)
    answered: int = 0


Batch = Callable[[random.Random, int], list[bytes]]


def request(rng: random.Random, correlation_id: int, size: int) -> bytes:
    """A Heartbeat of about `size` bytes, or a Produce request for larger sizes."""
    if size < 30_000:
        values: dict[str, Any] = {"group_id": "g" * size, "generation_id": 1, "member_id": "m"}
        return framed(catalog.encode_request(HEARTBEAT, 4, correlation_id, "live", values))
    # no two are equal, and yet a soak's capture stays small
    partition = {"index": 0, "records": rng.randbytes(1000) * (size // 1000)}
    values = {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [partition]}]}
    return framed(catalog.encode_request(PRODUCE, 9, correlation_id, "live", values))


def mixed(sizes: Sequence[int], most: int) -> Batch:
    """Batches of up to `most` requests, of these sizes with equal probability."""

    def batch(rng: random.Random, first: int) -> list[bytes]:
        return [request(rng, first + number, rng.choice(sizes)) for number in range(rng.randint(1, most))]

    return batch


class Load:
    """Clients that send pipelined batches until they are told to stop, or until the proxy is gone.

    Args:
        where: the listener of each connection.
        batches: about how many a connection sends before another one replaces it; 0: it stays.
    """

    def __init__(self, where: Sequence[Where], batch: Batch, seed: int = 0, batches: int = 0) -> None:
        self.talks: list[Talk] = []
        self.bytes = 0
        self._batch = batch
        self._batches = batches
        self._changed = threading.Condition()
        self._working = 0
        self._paused = self._stopped = False
        self._threads = [
            threading.Thread(target=self._run, args=(one, random.Random(f"{seed} {number}")), daemon=True)
            for number, one in enumerate(where)
        ]
        for thread in self._threads:
            thread.start()

    def reach(self, count: int) -> None:
        """Returns once so many more bytes have been sent and answered."""
        with self._changed:
            until = self.bytes + count
            assert self._changed.wait_for(lambda: self.bytes >= until, PATIENCE)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block, all that was sent has been answered, and nothing more is sent."""
        with self._changed:
            self._paused = True
            assert self._changed.wait_for(lambda: not self._working, PATIENCE)
        yield
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _run(self, where: Where, rng: random.Random) -> None:
        try:
            while not self._stopped:
                self._talk(where, rng)
        except (OSError, EOFError):
            # the proxy is gone
            return

    def _talk(self, where: Where, rng: random.Random) -> None:
        with socket.create_connection(where, PATIENCE, OWN_PORT) as sock, sock.makefile("rb") as stream:
            talk = Talk("{}:{}".format(*sock.getsockname()))
            self.talks.append(talk)
            left = rng.randint(1, 2 * self._batches) if self._batches else -1
            while left and self._may_go_on():
                try:
                    self._exchange(sock, stream, talk, self._batch(rng, len(talk.sent)))
                finally:
                    self._done()
                left -= 1

    def _exchange(self, sock: socket.socket, stream: Any, talk: Talk, batch: list[bytes]) -> None:
        talk.sent += batch
        sock.sendall(b"".join(batch))
        for sent in batch:
            got = framed(read_frame(stream))
            assert got == answer(sent[4:])
            talk.answered += 1
            with self._changed:
                self.bytes += len(sent) + len(got)
                self._changed.notify_all()

    def _may_go_on(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: not self._paused or self._stopped)
            self._working += not self._stopped
            return not self._stopped

    def _done(self) -> None:
        with self._changed:
            self._working -= 1
            self._changed.notify_all()
