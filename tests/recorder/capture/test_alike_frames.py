"""Tests that frames that are alike get the rows that they get one by one, whatever passes and wherever chunks end."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.exchange import Direction, OpaqueReason
from proxy.wire import catalog
from proxy.wire.keys import HEARTBEAT, METADATA, PRODUCE
from recorder.capture import streams
from recorder.capture.alike_frames import FEW, lone_frame
from recorder.capture.compactor import compact, compact_session
from recorder.capture.connection_state import ConnectionState
from recorder.capture.frame_spans import FrameSpan
from recorder.capture.record_rules import RecordRule
from recorder.capture.rows import RowMaker
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from tests.recorder.capture.looks import frame_rows
from tests.recorder.capture.traffic import Call, Chunk, Player, Talk, framed
from tests.recorder.capture.traffic import call as any_call
from tests.sweeps import examples

NEVER = 1 << 30


class Crash(Exception):
    """The compactor is killed."""


def calls(rng: random.Random) -> list[Call]:
    """Requests that a client sends together, most often alike, and their responses."""
    count = rng.choice([1, 1, 2, 3, 9, 20])
    first, step = rng.choice([0, 7, -3, (1 << 31) - 8]), rng.choice([1, 1, 1, 1, 0, 2])
    api, client = (
        rng.choice([HEARTBEAT, HEARTBEAT, PRODUCE, METADATA, 10_001]),
        rng.choice(["app", "app", "other", None]),
    )
    acks, odd = rng.choice([1, 1, 0]), rng.choice([None, None, rng.randrange(count)])
    versions = rng.choice([[4], [4], [4, 5], [2, 3]])
    made = []
    for number in range(count):
        correlation_id = (first + number * step + (1 << 31)) % (1 << 32) - (1 << 31)
        if number == odd:
            made.append(any_call(rng, rng.choice([HEARTBEAT, PRODUCE, METADATA]), correlation_id, "app"))
        elif api in (HEARTBEAT, PRODUCE):
            made.append(same_call(rng, api, acks, correlation_id, client, rng.choice(versions)))
        else:
            made.append(any_call(rng, api, correlation_id, client, 30))
    return made


def same_call(rng: random.Random, api: int, acks: int, correlation_id: int, client: str | None, version: int) -> Call:
    """A call whose request has a size that depends on its version alone; all else is at random."""
    text = "".join(rng.choices("abc", k=20))
    asked: dict[str, Any] = {"group_id": text, "generation_id": rng.randrange(99), "member_id": "m"}
    told: dict[str, Any] = {"error_code": rng.choice([0, 27])}
    if api == PRODUCE:
        partition = {"index": 0, "records": text.encode()}
        asked = {"acks": acks, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [partition]}]}
        name = "t" * rng.choice([2, 2, 2, 1, 3])
        told = {"responses": [{"name": name, "partition_responses": []}], "throttle_time_ms": rng.randrange(9)}
    else:
        version -= 1
    request = catalog.encode_request(api, version, correlation_id, client, asked)
    answer = catalog.encode_response(api, version, correlation_id, told)
    answered = None if api == PRODUCE and not acks else framed(answer)
    return Call(api, version, correlation_id, client, framed(request), answered)


def a_talk(rng: random.Random) -> Talk:
    """Bursts of requests. Chunks hold whole bursts, or are cut somewhere; responses come at once or a burst later."""
    talk = Talk(0, [])
    at_ns, waiting = 10**9, b""
    for _ in range(rng.randrange(2, 14)):
        made = calls(rng)
        talk.calls += made
        chunks = [(Direction.REQUEST, b"".join(one.request for one in made))]
        waiting += b"".join(one.answer or b"" for one in made)
        if rng.random() < 0.7:
            chunks.append((Direction.RESPONSE, waiting))
            waiting = b""
        for direction, data in chunks:
            cuts = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(rng.choice([0, 0, 0, 1, 3])))})
            if rng.random() < 0.3 and made[0].answer:
                # between frames
                cuts = sorted({0, len(data), min(len((made[0].request, made[0].answer)[direction]) * 3, len(data))})
            for start, stop in pairwise(cuts):
                at_ns += rng.randrange(1, 10**6)
                talk.chunks.append(Chunk(direction, data[start:stop], at_ns))
    return talk


def compacted(log: Path, folder: Path, few: int, steps: int, patch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The rows of a log. `steps`: of the compactor, which is then killed.

    `few`: how many frames may be alike; NEVER: none, and no frame counts as a lone one.
    """
    shutil.copytree(log, folder)
    patch.setattr(streams, "FEW", few)
    patch.setattr(streams, "lone_frame", (lambda *_: []) if few == NEVER else lone_frame)

    def step(_: str) -> None:
        nonlocal steps
        steps -= 1
        if not steps:
            raise Crash

    try:
        compact_session(folder, "s", before_step=step)
    except Crash:
        compact(folder)
    return frame_rows(folder)


def recorded(folder: Path, talk: Talk, settings: RecordSettings, must_flush: Callable[[], bool] = bool) -> Path:
    tap = open_tap(folder, settings, "s")
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks:
        player.play(0, chunk)
        if must_flush():
            tap.flush()
    player.close(0)
    tap.close()
    return folder


@examples(60)
@given(st.randoms(use_true_random=False), st.sampled_from([RecordRule.KEEP, RecordRule.DROP]))
def test_frames_that_are_alike_or_alone_have_the_rows_that_any_frame_has(
    tmp_path_factory: pytest.TempPathFactory, rng: random.Random, rule: RecordRule
) -> None:
    folder = tmp_path_factory.mktemp("alike")
    settings = RecordSettings(segment=rng.choice([2_000, 1 << 20]), records=rule)
    log = recorded(folder / "log", a_talk(rng), settings, lambda: rng.random() < 0.1)
    steps = rng.choice([0, 0, 8, 20])
    with pytest.MonkeyPatch.context() as patch:
        one_by_one = compacted(log, folder / "one", NEVER, 0, patch)
        assert compacted(log, folder / "alike", 2, steps, patch) == one_by_one
    shutil.rmtree(folder)


def test_responses_of_several_sizes_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many bytes as if all had the size of the first."""
    rng = random.Random(1)
    made = [same_call(rng, HEARTBEAT, 1, number, "app", 4) for number in range(20)]
    sizes = [6, 5, 7, *[6] * 7]
    answers = [framed(number.to_bytes(4, "big") + bytes(size)) for number, size in enumerate(sizes, 10)]
    chunks = [b"".join(one.request for one in part) for part in (made[:10], made[10:])]
    talk = Talk(0, made)
    talk.chunks += [Chunk(Direction.REQUEST, chunk, at_ns) for at_ns, chunk in enumerate(chunks, 1)]
    talk.chunks.append(Chunk(Direction.RESPONSE, b"".join(one.answer or b"" for one in made[:10]), 5))
    talk.chunks.append(Chunk(Direction.RESPONSE, b"".join(answers), 7))
    log = recorded(tmp_path / "log", talk, RecordSettings())
    rows = compacted(log, tmp_path / "alike", 2, 0, monkeypatch)
    assert [row["size"] - 4 for row in rows[-10:]] == sizes


def test_lone_frames_that_nobody_understands_have_their_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # once a request is understood, no login is under way: unknown frames are then no longer marked
    made = [any_call(random.Random(3), api, 7, "app") for api in (HEARTBEAT, 10_001)]
    frames = [frame for one in made for frame in (one.request, one.answer) if frame]
    chunks = [Chunk(Direction(number % 2), frame, number + 1) for number, frame in enumerate(frames)]
    log = recorded(tmp_path / "log", Talk(0, made, chunks=chunks), RecordSettings())
    rows = compacted(log, tmp_path / "alone", FEW, 0, monkeypatch)
    assert [row["note"] for row in rows] == [None, None, *[OpaqueReason.UNKNOWN_API.value] * 2]


def test_heartbeats_that_come_alone_or_in_bursts_are_taken_together_in_both_directions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(2)
    # the first frame tells the connection's client id, with which the others are compared
    bursts = (1, 9, 20)
    made = [same_call(rng, HEARTBEAT, 1, number, "app", 4) for number in range(sum(bursts))]
    starts = [*accumulate(bursts, initial=0)]
    parts = [made[start:stop] for start, stop in pairwise(starts)]
    talk = Talk(0, made)
    # responses come a burst later
    for at_ns, (asked, answered) in enumerate(zip([*parts, []], [[], *parts], strict=True)):
        chunks = b"".join(one.request for one in asked), b"".join(one.answer or b"" for one in answered)
        talk.chunks += [Chunk(Direction(n), data, at_ns * 10 + n + 1) for n, data in enumerate(chunks) if data]
    taken: tuple[list[int], list[int]] = ([], [])
    add_alike = RowMaker.add_alike

    def noted(
        self: RowMaker, conn: ConnectionState, direction: int, data: bytes, firsts: list[FrameSpan], mono_ns: int
    ) -> None:
        before = self.frames
        add_alike(self, conn, direction, data, firsts, mono_ns)
        taken[direction].append(self.frames - before)

    monkeypatch.setattr(RowMaker, "add_alike", noted)
    log = recorded(tmp_path / "log", talk, RecordSettings())
    rows = compacted(log, tmp_path / "alike", FEW, 0, monkeypatch)
    assert len(rows) == 2 * len(made)
    assert taken == ([*bursts], [*bursts])
