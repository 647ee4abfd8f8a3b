"""Tests of killing all processes under load: the capture has what the log had, once, and the next proxy works."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proxy.files import Folder
from recorder.capture import session as sessions
from recorder.capture.compactor import compact
from recorder.capture.progress import segments_with_state
from tests.brokers.waiting import wait_for
from tests.faults.live import LiveProxy, Load, Talk, Where, answer, broker, mixed
from tests.recorder.capture.looks import event_rows, frame_rows, session_folder
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

# Segments of 2 MiB, so that there are several. With `wait`, only a kill loses frames.
FLAGS = ("--record-spool", "8MiB", "--record-when-full", "wait")
BATCH = mixed((5, 5, 5, 5, 300, 20_000, 200_000), 12)
MIN_BYTES, MAX_BYTES = 500_000, 6_000_000

Start = Callable[[], LiveProxy]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts successive proxies with the same capture and broker."""
    proxies: list[LiveProxy] = []
    with broker() as upstream:

        def started() -> LiveProxy:
            output = tmp_path / f"proxy-{len(proxies)}.log"
            proxies.append(LiveProxy(upstream, tmp_path / "capture", output, *FLAGS))
            return proxies[-1]

        yield started
        for proxy in proxies:
            proxy.kill()


def load_on(nodes: dict[int, Where], seed: int) -> Load:
    return Load([*nodes.values()] * 2, BATCH, seed)


def all_logged(proxy: LiveProxy, load: Load) -> dict[str, int]:
    """Returns how many exchanges of each connection are certainly in the log."""
    with load.paused():
        wait_for(lambda: not proxy.metric("recorder_queue_bytes"), "the log")
        return {talk.client: talk.answered for talk in load.talks}


def made_columns(folder: Path, session: str, behind: int = 0) -> int:
    """Waits until the compactor has finished a segment and saved its state. Returns the segment's number."""

    def newest() -> int:
        with Folder.at(session_folder(folder, session)) as opened:
            found = segments_with_state(opened)
        return found[-1] if found and found[-1] > behind else 0

    return wait_for(newest, "the compactor's state")


def assert_prefix(folder: Path, session: str, talk: Talk, least: int) -> None:
    """Checks that the capture holds a prefix of both streams of a connection, each frame once."""
    rows = [row for row in frame_rows(folder) if row["client"] == talk.client and row["session"] == session]
    assert {row["connection"] for row in rows} <= {row["connection"] for row in rows[:1]}
    rows = [row for row in rows if not (row["note"] or "").startswith("cut")]
    assert [row["sequence"] for row in rows] == list(range(len(rows)))
    requests = [row for row in rows if row["kind"] == "request"]
    responses = [row for row in rows if row["kind"] == "response"]
    assert len(requests) + len(responses) == len(rows)
    for found in (requests, responses):
        assert [row["exchange"] for row in found] == list(range(len(found)))
        assert all(row["masked"] is None and row["omitted"] is None for row in found)
        assert len(found) >= least
    assert [row["frame"] for row in requests] == [sent[4:] for sent in talk.sent[: len(requests)]]
    assert [row["frame"] for row in responses] == [answer(sent[4:])[4:] for sent in talk.sent[: len(responses)]]


def assert_whole(folder: Path, session: str, load: Load) -> None:
    for talk in load.talks:
        assert talk.answered == len(talk.sent)
        assert_prefix(folder, session, talk, talk.answered)


def session_of(folder: Path, other_than: str = "") -> str:
    """Returns the new session. The older one may have ended."""
    (found,) = set(sessions.sessions(folder)) - {other_than}
    return found


@pytest.mark.parametrize("seed", mostly_long(range(3), usual=1))
def test_a_killed_proxys_capture_holds_what_was_logged_and_the_next_proxy_finishes_it(
    seed: int, start: Start, tmp_path: Path
) -> None:
    rng, folder = random.Random(seed), tmp_path / "capture"
    first = start()
    nodes, old = first.nodes(), session_of(folder)
    compactor = first.compactor()
    load = load_on(nodes, seed)
    if seed:
        made_columns(folder, old)
    load.reach(rng.randint(MIN_BYTES, MAX_BYTES))
    logged = all_logged(first, load)
    load.reach(rng.randint(1, MAX_BYTES))
    if seed:
        # Both are dead, so the next proxy has to finish the session.
        compactor.kill()
    first.kill()
    load.stop()
    second = start()
    assert second.nodes() == nodes
    new = session_of(folder, other_than=old)
    again = load_on(nodes, seed + 100)
    again.reach(MIN_BYTES)
    again.stop()
    wait_for(lambda: sessions.sessions(folder) == [new], "the old session's end")
    for talk in load.talks:
        assert_prefix(folder, old, talk, logged[talk.client])
    assert second.stop() == 0
    wait_for(lambda: not sessions.sessions(folder), "the new session's end")
    assert_whole(folder, new, again)
    assert event_rows(folder, "gap") == []


@pytest.mark.long
def test_the_compact_command_finishes_a_session_whose_proxy_and_compactor_were_killed(
    start: Start, tmp_path: Path
) -> None:
    rng, folder = random.Random(9), tmp_path / "capture"
    proxy = start()
    session, load = session_of(folder), load_on(proxy.nodes(), 9)
    compactor = proxy.compactor()
    made_columns(folder, session)
    load.reach(rng.randint(MIN_BYTES, MAX_BYTES))
    logged = all_logged(proxy, load)
    load.reach(rng.randint(1, MAX_BYTES))
    proxy.kill()
    compactor.kill()
    load.stop()
    # There is nothing left to finish if the compactor was done before it was killed.
    wait_for(lambda: not compact(folder).busy, "the killed compactor's lock")
    assert sessions.sessions(folder) == []
    for talk in load.talks:
        assert_prefix(folder, session, talk, logged[talk.client])


@pytest.mark.parametrize("seed", mostly_long(range(2), usual=1))
def test_a_killed_compactor_is_started_again_and_nothing_is_lost_or_doubled(
    seed: int, start: Start, tmp_path: Path
) -> None:
    rng, folder = random.Random(seed), tmp_path / "capture"
    proxy = start()
    session, load = session_of(folder), load_on(proxy.nodes(), seed)
    compactor = proxy.compactor()
    segment = 0
    for _ in range(2):
        segment = made_columns(folder, session, segment)
        load.reach(rng.randint(MIN_BYTES, MAX_BYTES))
        compactor.kill()
        compactor = proxy.compactor(other_than=compactor.pid)
    load.reach(MIN_BYTES)
    load.stop()
    assert proxy.stop() == 0
    wait_for(lambda: not sessions.sessions(folder), "the session's end")
    assert_whole(folder, session, load)
    assert event_rows(folder, "gap") == []


def test_a_compactor_that_hangs_and_one_that_ends_show_in_the_metrics(start: Start) -> None:
    proxy = start()
    load = load_on(proxy.nodes(), 0)
    load.reach(MIN_BYTES)
    compactor = proxy.compactor()
    compactor.suspend()
    load.reach(MIN_BYTES)
    load.stop()
    wait_for(lambda: proxy.metric("recorder_lag_seconds") > 2, "the lag to grow")
    assert proxy.metric("recorder_lag_bytes") > 0
    assert proxy.metric("recorder_compactor_restarts_total") == 0
    compactor.kill()
    wait_for(lambda: proxy.metric("recorder_compactor_restarts_total") == 1, "the end to be counted")
    wait_for(lambda: proxy.metric("recorder_lag_seconds") == 0, "the next one to have read it all")
    assert proxy.stop() == 0
