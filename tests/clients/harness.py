"""Runs a proxy as users do, between two taps, and checks the results once it has stopped.

    client -> tap -> kafka-wiretap proxy --record -> tap -> broker

The proxy listens on one loopback address and advertises another, on which the first tap listens. So all bytes of all
clients pass that tap, for any node's listener. The second tap listens at the brokers' advertised addresses.
"""

import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.brokers import children
from tests.brokers.kafka import KafkaCluster
from tests.brokers.ports import reserved_range
from tests.brokers.waiting import PATIENCE, wait_for
from tests.brokers.zookeeper import ZookeeperCluster
from tests.clients.checks import Ending, check_capture, check_facts, check_no_leak, check_transparent
from tests.clients.streams import Conversation
from tests.clients.tap import LAST_BYTES_SECONDS, Tap

LISTEN_HOST = "127.88.18.1"
ADVERTISED_HOST = "127.99.1.1"
# the bootstrap listener, and one for each node; node 0 is not used
PORTS = 5
READY_SECONDS = STOP_SECONDS = PATIENCE

PROGRAM = (sys.executable, "-c", "from proxy.cli import main; main()")


class Proxied:
    """A recording proxy before a cluster's tapped listener, running within `with`; see `proxied`."""

    def __init__(
        self,
        cluster: KafkaCluster | ZookeeperCluster,
        folder: Path,
        *,
        advertise: str = ADVERTISED_HOST,
        login: bool = False,
        sidecar: bool = False,
        record: bool = True,
        named: bool = True,
        disturbed: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        """Nothing runs yet.

        Args:
            folder: gets the capture, the taps' files and the proxy's log.
            advertise: what clients are told to dial: any spelling of a loopback IPv4 address but 127.88.18.1.
            login: stand before the listener that wants SASL.
            sidecar: the cluster's only broker, started later, advertises `bootstrap`.
            named: a flag says where each node is listened for; else the nodes' range does, and a proxy that starts
                again opens those ports of it whose nodes its state file knows.
            disturbed: brokers will end in the middle of a conversation. After `restart` it is so anyway.
            options: more of the proxy's.
        """
        self.cluster, self.folder, self.advertise = cluster, folder, advertise
        self.capture = folder / "capture"
        self._login, self._sidecar, self._record, self._options = login, sidecar, record, options
        self._named, self._ending = named, Ending.CUT if disturbed else Ending.WHOLE

    def __enter__(self) -> "Proxied":
        with ExitStack() as stack:
            dialled = socket.gethostbyname(self.advertise)
            self.port = stack.enter_context(reserved_range((LISTEN_HOST, dialled), PORTS))
            patience = LAST_BYTES_SECONDS if self.cluster.is_asked_by_clients_only else 1
            far = Tap(self.cluster.tap_routes, self.folder / "brokers", patience=patience)
            self._far = stack.enter_context(far)
            self._command = self._make_command()
            self._start_proxy()
            stack.callback(self.stop)
            ports = range(self.port, self.port + PORTS)
            self._routes = {f"{dialled}:{port}": f"{LISTEN_HOST}:{port}" for port in ports}
            self._near = stack.enter_context(Tap(self._routes, self.folder / "clients"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()  # before the taps, which then have no connection left to wait for
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{self.advertise}:{self.port}"

    @property
    def advertised(self) -> dict[str, str]:
        """A broker's "host:port" now and earlier -> the address that clients are told."""
        nodes = self.cluster.nodes.values()
        if self._sidecar:
            return {self.bootstrap: f"{self.advertise}:{self.node_port(1)}"}
        told = {node.number: f"{self.advertise}:{self.node_port(node.number)}" for node in nodes}
        if self._login:
            return {str(node.login): told[node.number] for node in self._with_logins().nodes.values()}
        return {str(address): told[node.number] for node in nodes for address in (node.tapped, *node.left)}

    @property
    def pid(self) -> int:
        """The running proxy's process."""
        return self._proxy.pid

    def node_port(self, number: int) -> int:
        """Returns the port of a node's listener."""
        return self.port + number + (0 if self._named else 1)

    @property
    def log(self) -> str:
        return (self.folder / "proxy.log").read_text(errors="replace")

    def _start_proxy(self) -> None:
        starts = self._starts() + 1
        self._proxy = children.spawn(self._command, output=self.folder / "proxy.log")
        wait_for(lambda: self._starts() == starts, "the proxy to listen", seconds=READY_SECONDS, hopeless=self._death)

    def _make_command(self) -> list[str]:
        listen = ["--listen", f"{LISTEN_HOST}:{self.port}", "--advertise", self.advertise]
        keep = ["--record", str(self.capture)] if self._record else []
        state = ["--state", str(self.folder / "state.json")]
        upstream = ["--upstream", self._with_logins().login_bootstrap if self._login else self.cluster.tapped_bootstrap]
        return [*PROGRAM, "proxy", *upstream, *listen, *self._places(), *state, *keep, *self._options]

    def _with_logins(self) -> KafkaCluster:
        assert isinstance(self.cluster, KafkaCluster)
        return self.cluster

    def _places(self) -> list[str]:
        if not self._named:
            return ["--node-ports", str(self.port + 1), "--node-count", str(PORTS - 1)]
        nodes = [f"--node={number}={LISTEN_HOST}:{self.node_port(number)}" for number in self.cluster.nodes]
        return [*nodes, "--node-ports", str(self.port + PORTS + 1)]

    def _starts(self) -> int:
        """Returns how many proxies have run here, one after the other."""
        log = self.folder / "proxy.log"
        return log.read_text(errors="replace").count("listening on") if log.exists() else 0

    def _death(self) -> str | None:
        code = self._proxy.poll()
        return None if code is None else f"it ended with exit code {code}:\n{self.log[-3000:]}"

    def stop(self) -> int:
        """Sends SIGTERM; returns the proxy's exit code. It may have stopped already."""
        return children.stop(self._proxy, seconds=STOP_SECONDS)

    def restart(self, *, kill: bool = False) -> None:
        """Stop the proxy, or kill it, and start it again."""
        with self.down(kill=kill):
            pass

    @contextmanager
    def down(self, *, kill: bool = False) -> Iterator[None]:
        """Within the block the proxy is stopped or killed, so clients are refused; then it starts again as before."""
        self._near.reroute({})
        if kill:
            self._proxy.kill()
            self._proxy.wait()
        else:
            assert self.stop() == 0, self.log[-3000:]
        self._ending = max(self._ending, Ending.KILLED if kill else Ending.CUT)
        yield
        self._start_proxy()
        self._near.reroute(self._routes)

    def follow_brokers(self, *without: int) -> None:
        """Makes the tap follow the brokers' present addresses; nothing listens at those of absent brokers."""
        there = [node for node in self.cluster.nodes.values() if node.number not in without]
        self._far.reroute({listen: target for node in there for listen, target in node.tap_routes.items()})

    def conversations(self) -> tuple[list[Conversation], list[Conversation]]:
        """Returns (the clients' side, the brokers' side) so far."""
        near, far = ([Conversation(one) for one in tap.connections()] for tap in (self._near, self._far))
        return near, far

    def check(self) -> None:
        """Stop, finish the capture, and compare all of it with the taps' files."""
        self._settle()
        assert self.stop() == 0, self.log[-3000:]
        self._near.close()
        self._far.close()
        near, far = self.conversations()
        check_transparent(near, far, self.advertised, self._ending)
        check_no_leak(near)
        if self._record:
            compact(self.capture)
            check_capture(self.capture, near, far, self._ending)
            check_facts(self.capture)
        assert "Traceback" not in self.log, self.log[-5000:]

    def _settle(self) -> None:
        """Wait until all that clients sent has passed: a proxy that is told to stop reads no further.

        What a proxy answers itself never passes, and what it loses doesn't; the checks tell them apart.
        """
        if self._ending > Ending.WHOLE:
            return  # bytes that were cut off never pass
        self._near.catch_up()
        before: Counter[int] | None = None
        while before != (passed := self._far.requested()):
            before = passed
            with suppress(TimeoutError):
                wait_for(partial(self._passes_more, passed), "more requests to pass", seconds=5)

    def _passes_more(self, before: Counter[int]) -> bool:
        """True if more requests have passed than before, or all have."""
        passed = self._far.requested()
        return passed != before or self._near.requested() <= passed


def compact(capture: Path) -> None:
    """Finish a capture whose proxy has ended: waits for its compactor, takes over what it left."""

    def is_done() -> bool:
        done = subprocess.run([*PROGRAM, "compact", str(capture)], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return not list(capture.glob("_spool/*/*.log"))

    wait_for(is_done, "the capture to be compacted", seconds=600)


@contextmanager
def proxied(cluster: KafkaCluster | ZookeeperCluster, folder: Path, **settings: Any) -> Iterator[Proxied]:
    """A proxy to work through; when the work is done, everything that passed is checked (`Proxied.check`)."""
    with Proxied(cluster, folder, **settings) as proxy:
        yield proxy
        proxy.check()
