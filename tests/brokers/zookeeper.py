"""Brokers of releases that keep their metadata in ZooKeeper: one broker, and the ZooKeeper from its jars.

| listener | bound to       | advertised as    | for                                                          |
|----------|----------------|------------------|--------------------------------------------------------------|
| TAPPED   | 127.0.0.1:port | 127.77.17.1:port | proxies; `tests.clients.tap` listens on the advertised port  |
| DIRECT   | 127.0.0.1:port | 127.66.16.1:port | requests among brokers; a tap of the cluster records them    |

A broker of 0.8 has only the listener TAPPED, and connects to itself through it, so it is ready once a proxy's tap
listens there.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.brokers import children
from tests.brokers.jars import class_path, java
from tests.brokers.kafka import DIRECT_HOST, JVM, TAPPED_HOST
from tests.brokers.metadata import ask_metadata
from tests.brokers.ports import Reserved
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.tap import Recorded, Tap

__all__ = ["CONSOLE_TOOLS", "ZookeeperCluster"]

FIRST_WITH_LISTENER_NAMES = (0, 10, 2)

# of the releases before 3.0: name of the script in a distribution -> the class that it runs
CONSOLE_TOOLS = {
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "kafka.tools.ConsoleConsumer",
    "kafka-simple-consumer-shell": "kafka.tools.SimpleConsumerShell",
}

# for log4j 1.2, which releases before 1.0 bring; the others log with slf4j-simple, which needs no file
_LOGGING = """log4j.rootLogger={level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""

_SETTINGS = {
    "broker.id": 1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "num.partitions": 1,
    "num.network.threads": 1,
    "num.io.threads": 2,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
    "group.initial.rebalance.delay.ms": 0,
    "zookeeper.connection.timeout.ms": PATIENCE * 1000,
    "zookeeper.session.timeout.ms": PATIENCE * 1000,
}


@dataclass(frozen=True, slots=True)
class Node:
    """The broker's advertised and its real ports."""

    number: int
    tapped: Reserved
    behind_tapped: Reserved
    direct: Reserved
    behind_direct: Reserved
    # earlier addresses: it never moves
    left: tuple[Reserved, ...] = ()

    @property
    def tap_routes(self) -> dict[str, str]:
        """The tap's address -> the address of the broker behind it, as "host:port"."""
        return {str(self.tapped): str(self.behind_tapped)}


class ZookeeperCluster:
    """A broker of a release of `jars.RELEASES` that supports ZooKeeper, which runs within `with`.

    Start it on a thread that lives as long as the cluster: see `children`.
    """

    def __init__(self, release: str, *, folder: Path) -> None:
        """Reserve every port and write nothing yet. `folder` is made, used and removed again."""
        self.release, self._folder = release, folder
        self._has_one_listener = tuple(map(int, release.split("."))) < FIRST_WITH_LISTENER_NAMES
        tapped, direct = Reserved(TAPPED_HOST.format(1)), Reserved(DIRECT_HOST.format(1))
        behind_tapped, behind_direct, self._zookeeper = (Reserved("127.0.0.1") for _ in range(3))
        self.nodes = {1: Node(1, tapped, behind_tapped, direct, behind_direct)}
        # settable before the start: the address that the broker advertises to clients, for example a sidecar's
        self.advertised = str(tapped)
        self._children: list[subprocess.Popen[bytes]] = []
        self._between: Tap | None = None

    @property
    def is_asked_by_clients_only(self) -> bool:
        """False for a broker whose own connections to itself pass the tap, and stay open for ever."""
        return not self._has_one_listener

    @property
    def tapped_bootstrap(self) -> str:
        """The tapped address; nobody answers there without a tap."""
        return str(self.nodes[1].tapped)

    @property
    def direct_bootstrap(self) -> str:
        """The address that brokers use among each other, from 0.10.2 on."""
        return str(self.nodes[1].direct)

    @property
    def tap_routes(self) -> dict[str, str]:
        """The tap's address -> the address of the broker behind it, as "host:port"."""
        return self.nodes[1].tap_routes

    @property
    def zookeeper(self) -> str:
        return str(self._zookeeper)

    def __enter__(self) -> "ZookeeperCluster":
        self._folder.mkdir(parents=True)
        try:
            self._write_files()
            if not self._has_one_listener:
                node = self.nodes[1]
                self._between = Tap({str(node.direct): str(node.behind_direct)}, self._folder / "between")
                self._between.__enter__()
            main = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self._folder / "zookeeper.properties")]
            self._launch("zookeeper", main)
            self._launch("broker", ["kafka.Kafka", str(self._folder / "server.properties")])
            wait_for(self._is_ready, f"Kafka {self.release}", hopeless=self._death)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for child in self._children:
            child.kill()  # its logs are not needed again
        for child in self._children:
            child.wait()
        if self._between:
            self._between.close()
        for port in (*self._ports(), self._zookeeper):
            port.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    def between_brokers(self) -> list[Recorded]:
        """Shuts the broker down in order; returns its requests to itself until then."""
        children.stop(self._children[-1], seconds=PATIENCE)
        assert self._between
        self._between.close()
        return self._between.connections()

    def console(self, tool: str, *arguments: str, stdin: bytes = b"", seconds: float = 600) -> str:
        """Run one of CONSOLE_TOOLS to its end; what it printed to stdout.

        Errors: AssertionError with the tool's output when it fails.
        """
        command = [*self._jvm("WARN"), CONSOLE_TOOLS[tool], *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=seconds)
        said = f"{done.stdout.decode()}\n{done.stderr.decode()}"
        assert done.returncode == 0, f"{tool} {' '.join(arguments)}:\n{said}"
        return done.stdout.decode()

    def _ports(self) -> tuple[Reserved, ...]:
        node = self.nodes[1]
        return node.tapped, node.behind_tapped, node.direct, node.behind_direct

    def _write_files(self) -> None:
        zookeeper = {
            "dataDir": self._folder / "zookeeper",
            "clientPortAddress": self._zookeeper.host,
            "clientPort": self._zookeeper.port,
            "admin.enableServer": "false",
            "tickTime": 1000,
            "maxSessionTimeout": PATIENCE * 1000,
        }
        broker = _SETTINGS | self._listeners()
        broker |= {"zookeeper.connect": self.zookeeper, "log.dirs": self._folder / "data"}
        for name, settings in (("zookeeper", zookeeper), ("server", broker)):
            text = "".join(f"{key}={value}\n" for key, value in settings.items())
            (self._folder / f"{name}.properties").write_text(text)
        for level in ("INFO", "WARN"):
            (self._folder / f"log4j-{level}.properties").write_text(_LOGGING.format(level=level))

    def _listeners(self) -> dict[str, object]:
        node = self.nodes[1]
        if self._has_one_listener:
            host, _, port = self.advertised.rpartition(":")
            bound = {"host.name": node.behind_tapped.host, "port": node.behind_tapped.port}
            return bound | {"advertised.host.name": host, "advertised.port": port}
        return {
            "listeners": f"TAPPED://{node.behind_tapped},DIRECT://{node.behind_direct}",
            "advertised.listeners": f"TAPPED://{self.advertised},DIRECT://{node.direct}",
            "listener.security.protocol.map": "TAPPED:PLAINTEXT,DIRECT:PLAINTEXT",
            "inter.broker.listener.name": "DIRECT",
        }

    def _jvm(self, level: str) -> list[str]:
        """The start of a JVM's argv. The long class path is in a file, which keeps messages readable."""
        arguments = self._folder / f"{level}.args"
        if not arguments.exists():
            log4j = f"-Dlog4j.configuration=file:{self._folder}/log4j-{level}.properties"
            simple = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={level.lower()}"
            options = [*JVM, log4j, simple, "-Dzookeeper.forceSync=no", "-cp", class_path(self.release)]
            arguments.write_text("\n".join(options))
        return [java(), f"@{arguments}"]

    def _launch(self, name: str, main: list[str]) -> None:
        self._children.append(children.spawn([*self._jvm("INFO"), *main], output=self._folder / f"{name}.log"))

    def _is_ready(self) -> bool:
        node = self.nodes[1]
        if self._has_one_listener:
            return "started" in (self._folder / "broker.log").read_text(errors="replace")
        return 1 in ask_metadata(node.behind_tapped.host, node.behind_tapped.port).brokers

    def _death(self) -> str | None:
        for name, child in zip(("zookeeper", "broker"), self._children, strict=True):
            if child.poll() is not None:
                log = (self._folder / f"{name}.log").read_text(errors="replace")
                return f"{name} ended with exit code {child.returncode}; its log ends:\n{log[-3000:]}"
        return None
