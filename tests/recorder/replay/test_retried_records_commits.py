"""Commits around retried records: none is behind a record that may still come, nor before one that can't."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given

from proxy.wire.keys import PRODUCE
from proxy.wire.records import Compression
from recorder.replay.consumers.differences import RECENT
from tests.recorder.replay.refused_records import (
    RECORDED_FROM,
    REFUSED,
    STEPS,
    TARGET_FROM,
    TOO_LARGE,
    Recorded,
    Target,
    batch,
    history,
    late_retries,
    message_set,
    places,
    replayed,
    request,
    wait_seconds,
)
from tests.recorder.replay.simple import PRODUCE_VERSION, produced


@given(STEPS)
def test_behind_a_commit_the_target_has_all_that_the_recording_has(steps: list[tuple[int, int, int, bool]]) -> None:
    target, ends = Target(), list[int]()
    recorded, _ = history(steps, (b"%d" % number for number in count()), ends)
    replayed(recorded, target, speed=1.0)
    found = places(recorded, target)
    for end, committed in zip(ends, target.committed, strict=True):
        assert all(committed <= at for offset, at in found.items() if offset >= end)


def test_behind_a_retry_that_was_filled_up_the_new_records_have_their_own_offsets() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r1", b"r2", code=REFUSED)
    recorded.produces(*[b"%d" % number for number in range(8)], connection=2)
    recorded.produces(b"r1", b"r2", b"n1", b"n2")
    for offset in range(8, 13):
        recorded.commits(RECORDED_FROM + offset)
    replayed(recorded, target)
    assert target.log[:2] + target.log[-2:] == [b"r1", b"r2", b"n1", b"n2"]
    assert target.committed == [TARGET_FROM + offset for offset in (0, 1, 10, 11, 12)]


def test_a_retry_that_is_not_sent_at_all_tells_where_its_records_are() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r1", b"r2", code=REFUSED)
    recorded.produces(*[b"%d" % number for number in range(8)], connection=2)
    recorded.produces(b"r1", b"r2")
    recorded.commits(RECORDED_FROM + 8)
    recorded.commits(RECORDED_FROM + 9)
    replayed(recorded, target)
    assert target.committed == [TARGET_FROM, TARGET_FROM + 1]


def test_a_commit_far_before_a_late_retry_is_not_behind_its_record_on_the_target() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r", code=REFUSED)
    for number in range(2 * RECENT):
        recorded.produces(b"%d" % number, connection=2)
        # records that the target alone has move the later ones
        recorded.produces(b"q%d" % number, code=REFUSED, connection=3)
    recorded.produces(b"r")
    recorded.commits(RECORDED_FROM + 3)
    replayed(recorded, target)
    assert target.log[0] == b"r"
    assert target.committed == [TARGET_FROM]


def test_a_commit_is_not_behind_a_refused_record_whose_retry_may_still_come() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", connection=2)
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"2", connection=2)
    recorded.commits(RECORDED_FROM + 2)
    recorded.produces(b"r")
    recorded.commits(RECORDED_FROM + 2)
    recorded.commits(RECORDED_FROM + 3)
    replayed(recorded, target, speed=1.0)
    assert target.log == [b"1", b"r", b"2"]
    assert target.committed == [TARGET_FROM + 1, TARGET_FROM + 1, TARGET_FROM + 3]


def test_a_commit_is_not_behind_a_record_whose_retry_is_in_flight() -> None:
    recorded, target = Recorded(), Target(slow=b"n")
    recorded.produces(b"1", connection=2)
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"2", connection=2)
    filled_up, following = (
        recorded.recording.asks(at, 1, PRODUCE, PRODUCE_VERSION, request(batch(*values)))
        for at, values in ((30, (b"r", b"n")), (40, (b"3",)))
    )
    recorded.at = 60
    recorded.commits(RECORDED_FROM + 2)
    recorded.recording.answers(130, filled_up, produced(base=RECORDED_FROM + 2))
    recorded.recording.answers(140, following, produced(base=RECORDED_FROM + 4))
    replayed(recorded, target, speed=1.0)
    assert target.log == [b"1", b"r", b"2", b"n", b"3"]
    assert target.committed == [TARGET_FROM + 1]


def test_a_refused_record_that_is_never_retried_keeps_no_commit_back_for_longer_than_clients_retry() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"1", connection=2)
    recorded.at += 301_000
    recorded.commits(RECORDED_FROM + 1)
    replayed(recorded, target)
    assert target.committed == [TARGET_FROM + 2]


def test_a_refused_record_keeps_commits_back_as_long_as_its_client_retries() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"1", connection=2)
    for _ in range(2):
        recorded.at += 200_000
        recorded.commits(RECORDED_FROM + 1)
        recorded.produces(b"r", code=REFUSED)
    recorded.at += 301_000
    recorded.commits(RECORDED_FROM + 1)
    replayed(recorded, target, speed=1.0)
    assert target.committed == [TARGET_FROM, TARGET_FROM, TARGET_FROM + 2]


@pytest.mark.parametrize("code", [-1, 29, 32, 45, 87])
def test_a_commit_is_behind_a_record_after_whose_error_no_client_retries(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"refused", code=code)
    recorded.produces(b"1", connection=2)
    recorded.commits(RECORDED_FROM + 1)
    world = replayed(recorded, target, most=0)
    assert target.committed == [TARGET_FROM + 2]
    assert world.result.possibly_twice == 0


def test_a_commit_is_behind_a_record_whose_retry_was_refused_for_good() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"refused", code=REFUSED)
    recorded.produces(b"refused", code=29)
    recorded.produces(b"1", connection=2)
    recorded.commits(RECORDED_FROM + 1)
    replayed(recorded, target)
    assert target.log == [b"refused", b"1"]
    assert target.committed == [TARGET_FROM + 2]


def test_a_commit_is_behind_a_batch_of_one_record_that_is_too_large() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"large", code=TOO_LARGE)
    recorded.produces(b"1", connection=2)
    recorded.commits(RECORDED_FROM + 1)
    world = replayed(recorded, target, most=0)
    assert target.committed == [TARGET_FROM + 2]
    assert world.result.possibly_twice == 0


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP], ids=str)
def test_a_commit_is_behind_the_part_of_a_split_batch_that_is_still_too_large(codec: Compression) -> None:
    recorded, target = Recorded(), Target()
    whole, part = (message_set(*values, codec=codec) for values in ((b"s", b"large"), (b"large",)))
    recorded.produces(b"s", b"large", code=TOO_LARGE, data=whole, version=2)
    recorded.produces(b"s")
    recorded.produces(b"large", code=TOO_LARGE, data=part, version=2)
    recorded.produces(b"1", connection=2)
    recorded.commits(RECORDED_FROM + 2)
    replayed(recorded, target, speed=1.0)
    assert target.log == [b"s", b"large", b"1"]
    assert target.committed == [TARGET_FROM + 3]


def test_a_taken_retry_whose_recorded_answer_is_read_late_keeps_no_commit_back() -> None:
    recorded, target = late_retries(1), Target()
    recorded.commits(RECORDED_FROM + len(recorded.log))
    replayed(recorded, target, speed=1.0)
    assert target.committed == [TARGET_FROM + len(recorded.log)]


def test_a_retry_whose_answer_is_not_recorded_leaves_its_record_owed() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r", code=REFUSED)
    recorded.produces(b"1", connection=2)
    recorded.recording.asks(recorded.at, 1, PRODUCE, PRODUCE_VERSION, request(batch(b"r")))
    wait_seconds(recorded, 7)
    recorded.commits(RECORDED_FROM + 1)
    replayed(recorded, target, speed=1.0)
    assert target.log[:2] == [b"r", b"1"]
    assert target.committed == [TARGET_FROM]
