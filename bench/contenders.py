"""The contenders: ways from a client to a broker that are compared."""

import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from prometheus_client.parser import text_string_to_metric_families

from bench import kroxylicious
from bench.processes import Programs, build, compacted, running
from tests.brokers.waiting import wait_for

DIRECT, RELAY = "direct", "bare relay"
KROXYLICIOUS, KROXYLICIOUS_UNMEASURED = "Kroxylicious", "Kroxylicious, no metrics"
PROXY, RECORDING = "proxy", "proxy, recording"
NAMES = (DIRECT, RELAY, KROXYLICIOUS, KROXYLICIOUS_UNMEASURED, PROXY, RECORDING)
# comparisons with Kroxylicious take the faster of these
ALL_KROXYLICIOUS = (KROXYLICIOUS, KROXYLICIOUS_UNMEASURED)

ANY_PORT = "127.0.0.1:0"
LISTENING = r"listening on (\S+):(\d+)"
METRICS_ON = r"metrics on (http://\S+)/metrics"
# arguments of a Python that run the command line, and all of it by the bench's own Python
COMMAND_LINE = ("-c", "from proxy.cli import main; main()")
KAFKA_WIRETAP = (sys.executable, *COMMAND_LINE)

# seconds within which the compactor catches up after a load
SETTLE_SECONDS = 120.0
# the compactor says how far it is twice a second: it has caught up when it has said so for this long
QUIET_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to a broker: where to connect, whose process it is, and the admin page where there is one ("http://...")."""

    name: str
    host: str
    port: int
    pid: int | None = None
    admin: str | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def metrics(self) -> dict[str, float]:
        """The metrics by their names without the prefix, each summed over its labels; {} without an admin page."""
        if self.admin is None:
            return {}
        with urllib.request.urlopen(f"{self.admin}/metrics", timeout=10) as page:
            families = text_string_to_metric_families(page.read().decode())
            samples = [sample for family in families for sample in family.samples]
        summed: dict[str, float] = defaultdict(float)
        for sample in samples:
            summed[sample.name.removeprefix("kafka_wiretap_")] += sample.value
        return summed

    def settle(self) -> float:
        """Wait until the compactor has nothing left to do: others are measured next, and want the processors.

        Returns: the seconds until it had caught up. Raises TimeoutError after `SETTLE_SECONDS`.
        """
        begun = caught_up = time.monotonic()

        def is_quiet() -> bool:
            nonlocal caught_up
            if self._backlog():
                caught_up = time.monotonic()
            return time.monotonic() - caught_up > QUIET_SECONDS

        if "recorder_lag_bytes" in self.metrics():
            wait_for(is_quiet, f"the compactor of {self.name!r}", seconds=SETTLE_SECONDS)
        return caught_up - begun

    def _backlog(self) -> float:
        """Bytes that wait to be written to the log, or to be read by the compactor."""
        now = self.metrics()
        return now["recorder_queue_bytes"] + now["recorder_lag_bytes"]


@contextmanager
def fake_cluster(folder: Path) -> Iterator[tuple[Programs, str]]:
    """The programs, built into a folder, and the address of the fake broker, which runs within the block."""
    programs = build(folder)
    with running([programs.broker], folder / "broker.log", LISTENING) as child:
        yield programs, f"{child.said[1]}:{child.said[2]}"


@contextmanager
def bare_relay(upstream: str, folder: Path, listen: str = ANY_PORT) -> Iterator[Contender]:
    command = (sys.executable, "-m", "bench.relay", upstream, listen)
    with running(command, folder / "relay.log", LISTENING) as child:
        yield Contender(RELAY, child.said[1], int(child.said[2]), child.pid)


@contextmanager
def proxy(
    upstream: str,
    folder: Path,
    name: str = PROXY,
    record: Path | None = None,
    *more: str,
    env: Mapping[str, str] = MappingProxyType({}),
    python: str = sys.executable,
) -> Iterator[Contender]:
    """A proxy with metrics. `more`: arguments for it. `env`: for it, too.

    Args:
        record: where it records. The block ends when all is compacted.
        python: the interpreter that runs it.
    """
    log = folder / f"{name}.log"
    where = ("--upstream", upstream, "--listen", ANY_PORT, "--metrics", ANY_PORT, "--state", folder / f"{name}.state")
    recorded = ("--record", record) if record else ()
    command = (python, *COMMAND_LINE, "proxy", *where, *recorded, *more)
    with compacted(record) if record else nullcontext(), running(command, log, METRICS_ON, env) as child:
        [*_, listening] = [line for line in log.read_text().splitlines() if line.startswith("listening on ")]
        host, _, port = listening.removeprefix("listening on ").rpartition(":")
        yield Contender(name, host, int(port), child.pid, child.said[1])


@contextmanager
def java_proxy(upstream: str, folder: Path, name: str = KROXYLICIOUS) -> Iterator[Contender]:
    """One of `ALL_KROXYLICIOUS`, cold. RuntimeError: it can't be had."""
    with kroxylicious.started(upstream, folder, metrics=name == KROXYLICIOUS) as child:
        yield Contender(name, child.said[1], int(child.said[2]), child.pid)


@contextmanager
def all_ways(
    direct: str, folder: Path, *, relay: tuple[str, str] | None = None, recording: bool = True, java: bool = True
) -> Iterator[tuple[Contender, ...]]:
    """The six of `NAMES`, in that order, to one broker; without those that are not wanted.

    Args:
        direct: the broker's address.
        relay: where the bare relay has to listen, and the address behind it, where these are other ones.
    """
    host, _, port = direct.rpartition(":")
    listen, behind = relay or (ANY_PORT, direct)
    with ExitStack() as stack:
        ways = [Contender(DIRECT, host, int(port)), stack.enter_context(bare_relay(behind, folder, listen))]
        if java:
            ways += [stack.enter_context(java_proxy(direct, folder, name)) for name in ALL_KROXYLICIOUS]
        ways.append(stack.enter_context(proxy(direct, folder)))
        if recording:
            ways.append(stack.enter_context(proxy(direct, folder, RECORDING, folder / "capture")))
        yield tuple(ways)
