"""`python -m bench.memory`: the proxy's resident memory: idle, with a thousand idle connections, busy, and over time.

The soak is everything at once on three connections that are opened again every few seconds, through a proxy that
records: bursts of small exchanges, Produce requests and Fetch responses of 1 MiB.
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.console import say
from bench.contenders import PROXY, RECORDING, Contender, fake_cluster, proxy
from bench.loads import LOADS, Load
from bench.processes import Programs
from proxy.wire import catalog
from proxy.wire.framing import framed

IDLE, IDLE_LIMIT_MB = 1000, 120
BUSY, BUSY_LIMIT_MIB, BUSY_SECONDS = 16, 2, 3
# the queue's limit is one for all connections, 64 MiB by default: it would hide the memory of each
SMALL_QUEUE = ("--record-queue", "1MiB")
# seconds that a load's connection lives during the soak
CONNECTION_SECONDS = 5
SAMPLES = 20
SOAKED = ("burst", "produce", "fetch-16")

HEARTBEAT = framed(
    catalog.encode_request(12, 4, 7, "bench", {"group_id": "idle", "generation_id": 1, "member_id": "idle"})
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--soak", type=float, default=0, help="seconds of everything at once; 0: none")
    parser.add_argument("--folder", type=Path, help="where to record; a disk with some 10 GB free")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-wiretap-memory-", dir=asked.folder) as folder:
        _measure(Path(folder), asked.soak)
    return 0


def _measure(folder: Path, soak_seconds: float) -> None:
    with fake_cluster(folder) as (programs, upstream):
        for name, record in ((PROXY, None), (RECORDING, folder / "capture")):
            with proxy(upstream, folder, name, record, *(SMALL_QUEUE if record else ())) as way:
                say(f"{name}: " + connections(programs, way))
                way.settle()
        if soak_seconds:
            where = folder / "soak"
            where.mkdir()
            with proxy(upstream, where, RECORDING, where / "capture") as way:
                for line in soak(programs, way, soak_seconds):
                    say(line)
                way.settle()


def connections(programs: Programs, way: Contender) -> str:
    """The memory of idle and of busy connections, as a line."""
    alone = resident(way.pid)
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(_connected(way))
        idle = resident(way.pid)
        busy = max(_while_busy(programs, way))
    each = (busy - idle) / BUSY
    return (
        f"{alone / 1e6:.0f} MB resident; {idle / 1e6:.0f} MB with {IDLE} idle connections"
        f" (target < {IDLE_LIMIT_MB} MB: {_verdict(idle < IDLE_LIMIT_MB * 1e6)}); {each / 2**20:.2f} MiB more for each"
        f" of {BUSY} busy ones (target < {BUSY_LIMIT_MIB} MiB: {_verdict(each < BUSY_LIMIT_MIB * 2**20)})"
    )


def _verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"


@contextmanager
def _connected(way: Contender) -> Iterator[None]:
    """A connection that has had one exchange, and stays."""
    with socket.create_connection((way.host, way.port), timeout=30) as sock:
        sock.sendall(HEARTBEAT)
        assert sock.recv(4096), "no answer"
        yield


def _while_busy(programs: Programs, way: Contender) -> Iterator[int]:
    """Bytes resident, again and again, while Produce and Fetch of 1 MiB go over connections of their own."""
    produce, fetch = (load for load in LOADS if load.name in ("produce", "fetch-16"))
    loads = [_start(programs, load, way, BUSY_SECONDS) for load in (produce, fetch) * (BUSY // 2)]
    while any(load.poll() is None for load in loads):
        yield resident(way.pid)
        time.sleep(0.05)
    assert not any(load.returncode for load in loads)


def _start(programs: Programs, load: Load, way: Contender, seconds: float) -> subprocess.Popen[bytes]:
    kind, *rest = load.arguments
    command = [str(programs.load), way.address, kind, str(seconds), *rest]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def soak(programs: Programs, way: Contender, seconds: float) -> Iterator[str]:
    """The lines of a Markdown table: what proxy and compactor have resident as time goes by."""
    yield "| seconds | proxy, MB | compactor, MB | exchanges, thousands | recorded, GB | dropped, GB |"
    yield "|---|---|---|---|---|---|"
    begun = time.monotonic()
    chosen = [load for load in LOADS if load.name in SOAKED]
    running_loads = {load: _start(programs, load, way, CONNECTION_SECONDS) for load in chosen}
    for sample in range(SAMPLES + 1):
        while time.monotonic() - begun < seconds * sample / SAMPLES:
            for load, child in running_loads.items():
                if child.poll() is not None:
                    assert not child.returncode, f"{load.name} ended with {child.returncode}"
                    running_loads[load] = _start(programs, load, way, CONNECTION_SECONDS)
            time.sleep(0.05)
        yield _sampled(way, time.monotonic() - begun)
    for child in running_loads.values():
        child.wait()


def _sampled(way: Contender, seconds: float) -> str:
    now = way.metrics()
    compactor = sum(resident(pid) for pid in _children(way.pid))
    numbers = (
        f"{seconds:.0f}",
        f"{resident(way.pid) / 1e6:.0f}",
        f"{compactor / 1e6:.0f}",
        f"{now['exchanges_total'] / 1e3:,.0f}",
        f"{now['recorder_bytes_total'] / 1e9:.1f}",
        f"{now['recorder_dropped_bytes_total'] / 1e9:.1f}",
    )
    return f"| {' | '.join(numbers)} |"


def resident(pid: int | None) -> int:
    """Bytes of a process that are in memory. Source: Linux' statm."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def _children(pid: int | None) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main())
