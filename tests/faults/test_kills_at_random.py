"""Tests of kill -9 at random moments while a proxy records, encrypts, ships and removes: every frame is accounted for.

A moment is a number of bytes that clients have sent since the last one. Then proxy, compactor and shipper are killed,
alone or together. In the end the bucket holds all that was published, so there each frame is in a row once or in a gap.
Only the last frames of a killed proxy are in neither: those that it had not written yet.

    make test-long ARGS="tests/faults/test_kills_at_random.py"              # all 200 moments
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import PRODUCE
from proxy.wire.records import Compression, Record, write_batch
from recorder.capture import frames as c
from recorder.capture import session as sessions
from recorder.capture import unshipped
from recorder.capture.compactor import compact
from recorder.capture.retention import removed_so_far
from recorder.capture.session import SPOOL_FOLDER
from tests.brokers.waiting import wait_for
from tests.faults.live import LiveProxy, Load, Talk, answer, broker, mixed, stopped_behind
from tests.faulty_s3 import Fault, Front
from tests.recorder.capture.looks import event_rows, frame_rows
from tests.recorder.running import run
from tests.recorder.shipping.shipped import BUCKET, PREFIX, URL, local, remote
from tests.s3 import Store

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(1200)]

# together 200 moments
SEEDS, MOMENTS = range(10), 20
RULES = ("keep", "drop", "hash")
SETTINGS = {"SHIP": URL, "ENCRYPT": "true", "KEEP__SIZE": "2MiB", "SEGMENT": "256KiB", "SEGMENT_AGE": "1s"}
MOST_BYTES = 1_000_000
VICTIMS = ("proxy", "compactor", "shipper")
TOGETHER = [chosen for count in (1, 2, 3) for chosen in combinations(VICTIMS, count)]
# what producers write begins with this
PLANTED = b"4111-1111-1111-1111 "
HEARTBEATS = mixed((5, 5, 300), 8)


def produce(rng: random.Random, number: int) -> bytes:
    """A Produce request whose records a rule must hide, with random bytes that take their room on the disk."""
    made = [Record(at, 5, PLANTED + rng.randbytes(8), PLANTED + rng.randbytes(4000)) for at in range(3)]
    data = write_batch(made, codec=rng.choice([Compression.NONE, Compression.GZIP]))
    topic = {"name": "payments", "partition_data": [{"index": 0, "records": data}]}
    values = {"acks": 1, "timeout_ms": 1, "topic_data": [topic]}
    return framed(catalog.encode_request(PRODUCE, 9, number, "live", values))


def batch(rng: random.Random, first: int) -> list[bytes]:
    found = HEARTBEATS(rng, first)
    return [*found, produce(rng, first + len(found))]


class Round:
    """The clients of one proxy. `written`: by client, how many exchanges the log certainly had when it was killed."""

    def __init__(self, proxy: LiveProxy) -> None:
        self.proxy, self.load = proxy, Load([proxy.listening] * 2, batch)
        self.written: dict[str, int] = {}

    def look(self) -> None:
        """Waits until all that was answered so far is in the log."""
        with self.load.paused():
            wait_for(lambda: not self.proxy.metric("recorder_queue_bytes"), "the log")
            self.written = {talk.client: talk.answered for talk in self.load.talks}

    def kill(self, rng: random.Random, victims: tuple[str, ...]) -> None:
        """Kills them at once, in any order; what a living proxy has lost runs again afterwards."""
        found = {"proxy": self.proxy.process}
        found |= {name: getattr(self.proxy, name)() for name in victims if name != "proxy"}
        for name in rng.sample(victims, len(victims)):
            found[name].kill()
        if "proxy" in victims:
            self.proxy.kill()
            self.load.stop()
            return
        for name in victims:
            getattr(self.proxy, name)(other_than=found[name].pid)


@contextmanager
def starting(folder: Path, rule: str, logs: Path) -> Iterator[Callable[[], LiveProxy]]:
    """Starts successive proxies with the same capture and broker; kills the one that is left if the block fails."""
    key = logs / "hash.key"
    key.write_bytes(random.Random(1).randbytes(32))
    key.chmod(0o600)
    environment = {f"KAFKA_WIRETAP_CAPTURE__{name}": value for name, value in SETTINGS.items()}
    flags = ("--records", rule, "--hash-key", str(key)) if rule == "hash" else ("--records", rule)
    started: list[LiveProxy] = []
    with broker() as upstream:

        def start() -> LiveProxy:
            output = logs / f"proxy-{len(started)}.log"
            started.append(LiveProxy(upstream, folder, output, *flags, env=environment))
            return started[-1]

        try:
            yield start
        finally:
            for proxy in started:
                proxy.kill()


@pytest.mark.parametrize("seed", SEEDS)
def test_after_kills_at_random_moments_each_frame_is_accounted_for(
    server: Store, store_front: Front, tmp_path: Path, seed: int
) -> None:
    rng, folder, rule = random.Random(seed), tmp_path / "capture", RULES[seed % len(RULES)]
    rounds: list[Round] = []
    with starting(folder, rule, tmp_path) as start:
        for _ in range(MOMENTS):
            if not rounds or rounds[-1].proxy.process.poll() is not None:
                rounds.append(Round(start()))
            # the store is away now and then, so that retention must wait for it
            now = rng.choice([None, None, Fault.ERROR, Fault.CUT])
            store_front.fault = lambda method, key, now=now: now  # type: ignore[misc]
            rounds[-1].load.reach(rng.randint(1, MOST_BYTES))
            if rng.random() < 0.5:
                rounds[-1].look()
                rounds[-1].load.reach(rng.randint(1, MOST_BYTES // 10))
            rounds[-1].kill(rng, rng.choice(TOGETHER))
            assert_log_hides(folder)
        store_front.fault = lambda method, key: None
        with stopped_behind(start()) as last:
            rounds.append(Round(last))
            rounds[-1].load.reach(MOST_BYTES)
            rounds[-1].load.stop()
    wait_for(lambda: not compact(folder).busy and not sessions.sessions(folder), "all sessions' ends")
    wait_for(lambda: not run("ship", folder, URL).exit_code, "the bucket to hold the rest")
    store_front.wait_until_idle()
    assert unshipped.waiting(folder) == []
    assert local(folder).items() <= remote(server).items()
    bucket = downloaded(server, tmp_path / "bucket")
    assert_removals_are_told(folder, bucket)
    account = Account(bucket, rule)
    account.assert_holds(rounds)
    print(f"{rule}: {len(rounds)} proxies, {removed_so_far(folder).files} files removed, {account}")
    assert rule == "keep" or not any(PLANTED in (row[c.FRAME] or b"") for row in frame_rows(bucket))
    assert rule == "keep" or not any(PLANTED in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def assert_log_hides(folder: Path) -> None:
    """Asserts that neither log nor states hold anything planted, whatever the rule: they are encrypted."""
    # the compactor may be removing files, and folders: `os.walk` passes over those that have gone
    for place, _, names in os.walk(folder / SPOOL_FOLDER):
        for path in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):
                assert PLANTED not in path.read_bytes(), path


def assert_removals_are_told(folder: Path, bucket: Path) -> None:
    """Asserts that all that the bucket has and the folder has not was removed by its size, counted, and told once."""
    removed = removed_so_far(folder)
    here, there = ({path.relative_to(place) for path in place.rglob("*.parquet")} for place in (folder, bucket))
    assert removed.files == len(there - here)
    assert {*removed.bytes} == ({"size"} if there - here else set())
    told = sum(json.loads(event[c.DETAIL])["files"] for event in event_rows(bucket, c.EVENT_REMOVED))
    # every session has ended, so what has a teller is told
    assert told + sum(one.files for one in removed.untold if one.teller is None) == removed.files


def downloaded(server: Store, into: Path) -> Path:
    """The bucket's capture."""
    for path, content in server.content(f"{BUCKET}/{PREFIX}").items():
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        (into / path).write_bytes(content)
    return into / PREFIX.rpartition("/")[2]


class Account:
    """A capture's rows and gaps, by client. `rule`: for all records."""

    def __init__(self, capture: Path, rule: str) -> None:
        self._rule = rule
        opened = event_rows(capture, c.EVENT_OPENED)
        clients = {(row["session"], row["connection"]): json.loads(row["detail"])["client"] for row in opened}
        assert len({*clients.values()}) == len(clients) == len(opened)
        self._rows: dict[str, list[dict[str, Any]]] = {client: [] for client in clients.values()}
        for row in frame_rows(capture):
            self._rows[clients[row["session"], row["connection"]]].append(row)
        self._lost = Counter[str]()
        self._causes = Counter[str]()
        for gap in event_rows(capture, c.EVENT_GAP):
            self._causes[gap["cause"]] += 1
            self._lost[clients[gap["session"], gap["connection"]]] += gap["bytes"]

    def assert_holds(self, rounds: list[Round]) -> None:
        assert self._causes.keys() <= {c.GAP_KEY}
        for each in rounds:
            was_killed = each.proxy.process.returncode < 0
            for talk in each.load.talks:
                self._assert_holds(talk, each.written.get(talk.client, 0) if was_killed else len(talk.sent))

    def __str__(self) -> str:
        rows = sum(map(len, self._rows.values()))
        return f"{rows} frames in rows, {sum(self._lost.values())} bytes in gaps: {dict(self._causes)}"

    def _assert_holds(self, talk: Talk, written: int) -> None:
        """`written`: how many exchanges the log had at least."""
        rows = [row for row in self._rows.get(talk.client, []) if not (row["note"] or "").startswith(c.CUT)]
        places = Counter((row["exchange"], row["kind"]) for row in rows)
        assert {*places.values()} <= {1}
        assert len({row["sequence"] for row in rows}) == len(rows)
        for row in rows:
            sent = talk.sent[row["exchange"]]
            frame = (sent if row["kind"] == "request" else answer(sent[4:]))[4:]
            assert row["size"] == len(frame)
            if self._rule == "keep" or row["api_key"] != PRODUCE:
                assert row["frame"] == frame
        known = sum(row["size"] + 4 for row in rows) + self._lost[talk.client]
        sizes = [len(sent) + len(answer(sent[4:])) for sent in talk.sent]
        assert sum(sizes[:written]) <= known <= sum(sizes)
