"""Tests of replaying incomplete captures: gaps, frames without bodies, a torn end, sessions of several processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.keys import LIST_OFFSETS
from recorder.replay.options import Options
from recorder.replay.plan import Reason
from recorder.replay.stream import AnswerRecorded, Happening, RequestRecorded, happenings
from tests.recorder.replay.captures import NOON_NS, SESSION, Row, event, request, response, write
from tests.recorder.replay.fake_kafka import Kafka, recorded
from tests.recorder.replay.simple import LIST_VERSION, answered, list_answer, listed
from tests.recorder.replay.simulation import MS, Recording, Simulation, one_node
from tests.sweeps import examples

HOUR_NS = 3600 * 10**9
OTHER_SESSION = "20261121T120000Z-xyz"


def torn(random: Random, happened: list[Happening], lost: float, cut: float) -> list[Happening]:
    """Returns what is left of a capture.

    Args:
        lost: the share of requests, and of responses, that are in no file; also whole stretches of them.
        cut: the share of requests, and of responses, whose bodies were not recorded.
    """
    gap = sorted(random.sample(range(len(happened)), 2)) if lost and len(happened) > 2 else (0, 0)
    left = [each for at, each in enumerate(happened) if not gap[0] <= at < gap[1] and random.random() >= lost]
    return [_cut(each) if random.random() < cut else each for each in left]


def _cut(happening: Happening) -> Happening:
    if isinstance(happening, RequestRecorded):
        return happening._replace(exchange=replace(happening.exchange, frame=None, fault=Reason.CUT))
    return happening._replace(frame=None) if isinstance(happening, AnswerRecorded) else happening


@examples(30, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(5, 60),
    speed=st.sampled_from([None, 1.0]),
    lost=st.sampled_from([0.0, 0.05, 0.3]),
    cut=st.sampled_from([0.0, 0.05, 0.3]),
    is_v2=st.booleans(),
)
def test_an_incomplete_capture_is_played_to_its_end_and_leaves_the_target_in_order(
    seed: int, steps: int, speed: float | None, lost: float, cut: float, is_v2: bool
) -> None:
    random = Random(seed)
    recording = recorded(random, Kafka.like(is_v2=is_v2), steps, is_timed=speed is not None)
    whole = len(recording.happenings)
    recording.happenings = torn(random, recording.happenings, lost, cut)
    target = Kafka.other(random, is_v2=is_v2)
    options = Options(speed=speed)
    found = Simulation(recording, target.of_replay, options, cluster=target.cluster(), prepared=target.prepared())
    asked = sum(isinstance(each, RequestRecorded) for each in recording.happenings)
    result = found.run()
    assert found.engine.finished
    totals = result.totals
    # each remaining request is sent, or withheld for a reason
    assert totals.recorded == asked == totals.sent + totals.withheld.total()
    assert (totals.withheld[Reason.CUT] > 0) <= bool(cut)
    assert not [name for name, one in target.transactions.items() if one.partitions or one.groups]
    # a member whose join has no response in the capture, and whose connection ends, is unknown: its session times out
    assert lost or not [name for name, group in target.groups.items() if group.member is not None]
    assert lost or len(recording.happenings) == whole


def exchanges(session: str, start_ns: int, count: int, *, apart_ns: int, wall_step_ns: int = 0) -> list[Row]:
    """ListOffsets of one connection. `wall_step_ns`: by how much the wall clock is set halfway."""
    rows = []
    for number in range(count):
        at = start_ns + number * apart_ns
        wall = NOON_NS + at + (wall_step_ns if number >= count // 2 else 0)
        facts = {"session": session, "at_ns": wall}
        rows.append(request(at, 1, number, LIST_OFFSETS, LIST_VERSION, listed(), **facts))
        rows.append(response(at + MS, 1, number, LIST_OFFSETS, LIST_VERSION, list_answer(), **facts))
    return rows


def played(folder: Path) -> Simulation:
    recording = Recording()
    recording.happenings = [*happenings(folder)]
    found = Simulation(recording, answered, cluster=one_node(("a", 1)))
    found.run()
    assert found.engine.finished
    return found


def test_sessions_of_several_processes_are_played_beside_each_other(tmp_path: Path) -> None:
    # two workers, both of which number their connections from 1
    rows = exchanges(SESSION, 0, 4, apart_ns=20 * MS) + exchanges(OTHER_SESSION, 10 * MS, 4, apart_ns=20 * MS)
    found = played(write(tmp_path, rows))
    assert found.times(LIST_OFFSETS) == [0, 10, 20, 30, 40, 50, 60, 70]
    assert len({got.channel for got in found.asked(LIST_OFFSETS)}) == 2


def test_a_wall_clock_that_is_set_meanwhile_moves_nothing(tmp_path: Path) -> None:
    for at, step in enumerate((HOUR_NS, -HOUR_NS)):
        rows = exchanges(SESSION, 0, 6, apart_ns=20 * MS, wall_step_ns=step)
        rows += exchanges(OTHER_SESSION, 10 * MS, 6, apart_ns=20 * MS)
        found = played(write(tmp_path / str(at), rows))
        assert found.times(LIST_OFFSETS) == [10.0 * number for number in range(12)]


def test_a_session_that_began_when_the_clock_had_been_set_back_is_played_where_its_clock_says(tmp_path: Path) -> None:
    rows = exchanges(SESSION, 0, 2, apart_ns=20 * MS)
    rows += [row | {"at_ns": row["at_ns"] + HOUR_NS} for row in exchanges(OTHER_SESSION, 0, 2, apart_ns=20 * MS)]
    assert played(write(tmp_path, rows)).times(LIST_OFFSETS) == [0, 20, 3_600_000, 3_600_020]


def test_nothing_waits_for_an_answer_that_a_crash_tore_off(tmp_path: Path) -> None:
    rows = exchanges(SESSION, 0, 3, apart_ns=20 * MS)
    # neither the last response nor the end of the connection was written
    found = played(write(tmp_path, rows[:-1], [event(0, 1, "opened")]))
    assert found.times(LIST_OFFSETS) == [0, 20, 40]
    assert found.world.result.totals.lost == 0


def test_answers_without_their_requests_and_frames_without_bodies_are_skipped(tmp_path: Path) -> None:
    rows = exchanges(SESSION, 0, 4, apart_ns=20 * MS)
    head = {"frame": rows[4]["frame"][:20], "omitted": [{"start": 20, "length": 30}]}
    found = played(write(tmp_path, [*rows[1:4], rows[4] | head, *rows[5:]]))
    assert found.times(LIST_OFFSETS) == [0, 40]
    assert found.world.result.totals.withheld == {Reason.CUT: 1}
