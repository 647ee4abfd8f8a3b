"""Records that only the recording refused, and their retries: each is once on the target."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.records import Compression
from tests.recorder.replay.refused_records import (
    A0,
    RECORDED_FROM,
    REFUSED,
    STEPS,
    TARGET_FROM,
    Recorded,
    Target,
    history,
    message_set,
    replayed,
)


def test_the_new_one_of_two_equal_refused_records_is_owed() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", code=REFUSED)
    recorded.produces(b"1", b"1", code=REFUSED)
    recorded.produces(b"1", b"1")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"1"]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP], ids=str)
def test_only_the_new_records_of_a_repeating_message_set_are_sent(codec: Compression) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", b"2", code=REFUSED, data=message_set(b"1", b"2", codec=codec), version=2)
    recorded.produces(b"1", b"2", b"3", data=message_set(b"1", b"2", b"3", codec=codec), version=2)
    world = replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"2", b"3"]
    assert world._offsets._ends[A0] == TARGET_FROM + 3


@pytest.mark.parametrize(("most", "twice"), [(3, 0), (2, 1)])
def test_a_replay_says_how_many_records_the_target_may_have_twice(most: int, twice: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", b"2", b"3", code=REFUSED)
    recorded.produces(b"1", b"2", b"3")
    assert replayed(recorded, target, most).result.possibly_twice == twice
    assert target.log == [b"1", b"2", b"3", b"3"][: 3 + twice]


def test_a_record_is_once_on_the_target_however_long_its_client_retries() -> None:
    recorded, target = Recorded(), Target()
    for _ in range(30):
        recorded.produces(b"1", code=REFUSED)
        recorded.at += 60_000
    recorded.produces(b"1")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1"]


@pytest.mark.parametrize("code", [7, 20], ids=["timed out", "too few replicas"])
def test_a_record_that_the_recorded_log_has_twice_is_twice_on_the_target(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", code=code)
    recorded.log += [b"1"]
    recorded.produces(b"1")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"1"]


@pytest.mark.parametrize("code", [7, 20], ids=["timed out", "too few replicas"])
def test_a_retry_that_the_recorded_log_has_twice_has_its_new_records_twice_on_the_target(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", code=REFUSED)
    recorded.produces(b"1", b"2", code=code)
    recorded.log += [b"1", b"2"]
    recorded.produces(b"1", b"2")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"2", b"1", b"2"]


@given(STEPS, st.integers(0, 10**9))
def test_each_record_is_once_on_the_target_however_often_the_recording_refused_it(
    steps: list[tuple[int, int, int, bool]], seed: int
) -> None:
    random, target = Random(seed), Target()
    recorded, made = history(steps, (b"%d" % random.randint(0, 3) for _ in count()))
    replayed(recorded, target)
    assert Counter(target.log) == Counter(made)


@pytest.mark.parametrize("speed", [None, 1.0], ids=["max", "as recorded"])
def test_a_retry_goes_into_a_topic_that_was_deleted_and_created_again(speed: float | None) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"before")
    recorded.produces(b"1", code=REFUSED)
    recorded.makes_the_topic_anew()
    recorded.produces(b"1")
    recorded.produces(b"after")
    recorded.commits(RECORDED_FROM + 2)
    replayed(recorded, target, speed=speed)
    assert target.log == recorded.log == [b"1", b"after"]
    assert target.committed == [TARGET_FROM + 2]


@pytest.mark.parametrize("code", [2, 3, 10, 19])
def test_a_record_is_once_on_the_target_after_each_error_after_which_clients_retry(code: int) -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"1", b"2", code=code)
    recorded.produces(b"1")
    recorded.produces(b"2")
    replayed(recorded, target)
    assert target.log == recorded.log == [b"1", b"2"]
