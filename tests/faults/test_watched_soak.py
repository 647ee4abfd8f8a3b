"""Ten minutes of hostile traffic while everybody looks: Prometheus, the page, `top`, a collector.

Nothing grows, ends or hangs, what peers name stays text, and what those who look miss is counted.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx
import psutil
import pytest

from proxy.schema.addresses import Address
from proxy.units import MIB
from recorder.top.client import Client, NoAnswer
from tests.brokers import children
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.harness import PROGRAM
from tests.dashboards.prometheus import Prometheus
from tests.faults.hostile_traffic import HARMLESS, HOSTILE, RATE, Traffic, answering
from tests.faults.live import LiveProxy, child_of
from tests.hostile_text import TEXT
from tests.recorder.tracing.receiver import Receiver, receiver

MINUTE = 60
MINUTES = 10
# the minutes whose memory is compared
EARLY, LATE = (2, 4), (8, 10)
# the most that one may grow meanwhile, as a ratio: allocators give nothing back at once
GROWTH = 1.1
pytestmark = [pytest.mark.long, pytest.mark.timeout(MINUTES * MINUTE + 1800)]

TOKEN = "correct-horse-battery-staple"
# what is pressed in `top`, a key a second: each view, an exchange and back, another order
KEYS = [*"12345678", "\r", "\x1b", "2", "s", "r"]
# what a terminal would obey: the title in the text
OBEYED = TEXT[TEXT.index("\x1b") : TEXT.index("\x07") + 1]
# nothing is lost on the way to those who look, however slow the disk
FLAGS = ("--record-when-full", "wait")
SETTINGS = {"TOPICS": "1000", "CLIENTS": "1000", "GROUPS": "1000", "PAGE": "127.0.0.1:0", "OTLP_EVERY": "100"}


class Screen:
    """`top` in a pseudo-terminal. `size`: bytes that it wrote; `written`: the last of them."""

    def __init__(self, proxy: str, token: Path) -> None:
        self.size, self.written = 0, deque[bytes](maxlen=10_000)
        self._keyboard, terminal = os.openpty()
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "160", "LINES": "40"}
        command = [*PROGRAM, "top", proxy, "--token-file", str(token)]
        self.child = children.spawn(command, env=environment, stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        # Linux reports a closed other side by EIO
        with suppress(OSError):
            while piece := os.read(self._keyboard, 1 << 16):
                self.size += len(piece)
                self.written.append(piece)

    def press(self, key: str) -> None:
        os.write(self._keyboard, key.encode())

    def close(self) -> None:
        children.stop(self.child)


class Lines:
    """Reads lines in a thread, as they come. `last`: the newest; `count`: how many came."""

    def __init__(self, lines: Iterator[Any]) -> None:
        self.last: Any = None
        self.count = 0
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterator[Any]) -> None:
        with suppress(NoAnswer, httpx.HTTPError):
            for self.last in lines:
                self.count += 1


class Looking(NamedTuple):
    """Those who look. `events`: the page's stream; `sums`: what `top` is told."""

    prometheus: Prometheus
    screen: Screen
    page: httpx.Client
    events: Lines
    sums: Lines
    collector: Receiver

    def clicks(self) -> None:
        """Asks what a browser asks, and opens an exchange."""
        assert self.page.get("sums").status_code == 200
        found = self.page.get("exchanges", params={"filter": "error", "limit": 100}).json()["exchanges"]
        for one in found[:1]:
            # it may have made room for others
            assert self.page.get("exchange", params={"id": one["id"]}).status_code in (200, 404)

    def seen(self) -> tuple[float, ...]:
        """How much each has seen: numbers that grow while traffic is seen."""
        scraped = self.prometheus.number("sum(kafka_wiretap_exchanges_total)")
        return scraped, self.screen.size, self.events.count, self.sums.count, len(self.collector.requests)


@contextmanager
def looking(proxy: LiveProxy, token: Path, collector: Receiver, folder: Path) -> Iterator[Looking]:
    wait_for(lambda: proxy.metric("live_runs"), "the live process")
    admin, page = (re.findall(rf"{said} http://([^/\s]+)/", proxy.log)[0] for said in ("metrics on", "page is at"))
    headers = {"authorization": f"Bearer {TOKEN}"}
    with ExitStack() as stack:
        prometheus = stack.enter_context(Prometheus({"kafka-wiretap": admin}, folder))
        screen = Screen(admin, token)
        stack.callback(screen.close)
        client = httpx.Client(base_url=f"http://{page}/api/", headers=headers, timeout=PATIENCE)
        events = stack.enter_context(stack.enter_context(client).stream("GET", "news"))
        sums = Client(Address.parse(admin), TOKEN).watch("")
        yield Looking(prometheus, screen, client, Lines(events.iter_lines()), Lines(sums), collector)


def memory(processes: Mapping[str, psutil.Process], by: Looking) -> dict[str, list[tuple[float, int]]]:
    """Samples (minutes since the begin, bytes resident), by process."""
    found = defaultdict[str, list[tuple[float, int]]](list)
    begun, tick = time.monotonic(), threading.Event()
    for key in itertools.cycle(KEYS):
        minutes = (time.monotonic() - begun) / MINUTE
        if minutes > MINUTES:
            return found
        for name, process in processes.items():
            found[name].append((minutes, process.memory_info().rss))
        by.screen.press(key)
        by.clicks()
        tick.wait(1)
    raise AssertionError


def of_minutes(samples: list[tuple[float, int]], minutes: tuple[int, int]) -> float:
    """The median."""
    first, end = minutes
    return median(size for at, size in samples if first <= at < end)


def test_while_everybody_looks_nothing_grows_ends_or_hangs(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    traffic = Traffic()
    with ExitStack() as stack:
        collector = stack.enter_context(receiver())
        upstream = stack.enter_context(answering(traffic))
        asked = SETTINGS | {"TOKEN_FILE": str(token), "OTLP": collector.url}
        env = {f"KAFKA_WIRETAP_LIVE__{name}": value for name, value in asked.items()}
        proxy = stack.enter_context(LiveProxy(upstream, tmp_path / "capture", tmp_path / "proxy.log", *FLAGS, env=env))
        live = child_of(proxy.process.pid, "recorder.live.process")
        by = stack.enter_context(looking(proxy, token, collector, tmp_path / "prometheus"))
        processes = {
            "proxy": psutil.Process(proxy.process.pid),
            "live process": live,
            "compactor": proxy.compactor(),
            "top": psutil.Process(by.screen.child.pid),
        }
        nodes = [*proxy.nodes().values()]
        with traffic.at(nodes):
            sizes = memory(processes, by)
        print(f"{traffic.exchanges / MINUTES / MINUTE:,.0f} exchanges a second, of {RATE:,}; MiB resident by minute:")
        for name, samples in sizes.items():
            print(name, *(f"{of_minutes(samples, (at, at + 1)) / MIB:.0f}" for at in range(MINUTES)))
        # the clients', and the question for the nodes
        exchanges = traffic.exchanges + 1
        wait_for(lambda: proxy.metric("client_requests_total") == exchanges, "every request to be counted", seconds=900)
        assert proxy.metric("exchanges_total") == exchanges
        told = by.sums.count
        wait_for(lambda: by.sums.count > told + 1, "`top` to be told of them")
        assert_counted(by.sums.last, exchanges)
        # from an exchange back to what moves
        by.screen.press("\x1b")
        before = by.seen()
        with traffic.at(nodes, pause=1):
            wait_for(lambda: all(now > then for now, then in zip(by.seen(), before, strict=True)), "all to see more")
        assert proxy.metric("live_restarts_total") == proxy.metric("live_unread_frames_total") == 0
        assert all(process.is_running() for process in processes.values())
        assert OBEYED.encode() not in b"".join(by.screen.written)
        assert {*HOSTILE, *HARMLESS} <= labels(by.prometheus, "topic_produced_bytes_total", "topic")
        assert {*HOSTILE, *HARMLESS} <= labels(by.prometheus, "client_requests_total", "client_id")
        assert {*HOSTILE, *HARMLESS} <= labels(by.prometheus, "group_committed_offset", "group")
    for samples in sizes.values():
        assert of_minutes(samples, LATE) <= GROWTH * of_minutes(samples, EARLY)


def assert_counted(sums: dict[str, Any], exchanges: int) -> None:
    """What `top` was told of, and what it was told that it had missed, are all."""
    frames = 2 * sums["exchanges"] + sums["missed"].get("frames", 0)
    print(f"{sums['exchanges'] / exchanges:.1%} of the exchanges were seen by those who look")
    # of exchanges whose frames lie on both sides of what was missed, one half is not counted
    assert frames == pytest.approx(2 * exchanges, rel=0.01)


def labels(prometheus: Prometheus, metric: str, label: str) -> set[str]:
    """The values of a label."""
    return {one.labels[label] for one in prometheus.now(f"kafka_wiretap_{metric}")}
