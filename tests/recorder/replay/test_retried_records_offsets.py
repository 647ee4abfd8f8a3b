"""Where the target has records that were retried: which of its offsets a recorded offset becomes."""

from __future__ import annotations

from itertools import count

from hypothesis import given

from proxy.wire.keys import INIT_PRODUCER_ID, PRODUCE
from proxy.wire.pieces import LARGE
from proxy.wire.records import Compression, Record, write_batch
from recorder.replay.consumers.differences import RECENT
from tests.recorder.replay.refused_records import (
    A0,
    RECORDED_FROM,
    REFUSED,
    STEPS,
    TARGET_FROM,
    Recorded,
    Target,
    batch,
    begun,
    history,
    late_retries,
    message_set,
    places,
    replayed,
    request,
)
from tests.recorder.replay.simple import PRODUCE_VERSION


@given(STEPS)
def test_a_record_is_found_where_it_was_first_taken_and_nothing_behind_a_boundary_is_before_it(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    target = Target()
    recorded, _ = history(steps, (b"%d" % number for number in count()))
    offsets = replayed(recorded, target)._offsets
    found = places(recorded, target)
    assert {offset: offsets.of_record("a", 0, offset) for offset in found} == found
    for offset in found:
        behind = min(found[later] for later in found if later >= offset)
        # records that only the target has may be the first ones
        assert offsets.expected("a", 0, offset) == (behind if offset > RECORDED_FROM else TARGET_FROM)
    end = TARGET_FROM + len(target.log)
    if found:
        assert max(found.values()) < offsets.expected("a", 0, max(found) + 1) <= end
    assert offsets._ends[A0] == end


def test_each_of_many_retries_with_late_recorded_answers_maps_its_offset() -> None:
    recorded, target = late_retries(2 * RECENT), Target()
    for producer in range(100, 100 + 2 * RECENT):
        recorded.produces(b"next %d" % producer, connection=producer)
    recorded.commits(RECORDED_FROM + 50)
    offsets = replayed(recorded, target, speed=1.0)._offsets
    assert target.committed == [TARGET_FROM]
    found = places(recorded, target)
    assert {offset: offsets.of_record("a", 0, offset) for offset in found} == found


def test_a_retrys_offsets_are_learned_before_later_pairs_are_summed_up() -> None:
    recorded, target = Recorded(), Target()
    recorded.produces(b"r1", b"r2", code=REFUSED)
    recorded.produces(b"x1", b"x2", b"x3", connection=2)
    recorded.produces(b"r1", b"r2")
    # takes the room of the retry on the target: the difference is the same before and behind it
    recorded.produces(b"q1", b"q2", code=REFUSED, connection=3)
    recorded.produces(b"y1", b"y2", b"y3", connection=2)
    for number in range(2 * RECENT):
        recorded.produces(b"%d" % number, connection=2)
    offsets = replayed(recorded, target)._offsets
    found = places(recorded, target)
    assert {offset: offsets.of_record("a", 0, offset) for offset in found} == found


def test_the_offsets_after_a_compressed_message_set_count_its_messages() -> None:
    data = message_set(b"1", b"2", b"3", codec=Compression.GZIP)
    recorded, target = Recorded(), Target()
    # librdkafka leaves the offset in the wrapper's head 0
    recorded.produces(b"1", b"2", b"3", data=bytes(8) + data[8:], version=2)
    assert replayed(recorded, target)._offsets._ends[A0] == TARGET_FROM + 3


def test_the_rest_of_a_retry_counts_as_it_is_beside_a_partition_that_is_too_large_to_be_copied() -> None:
    target = Target()
    recorded = Recorded()
    recorded.produces(b"1", b"2", code=REFUSED)
    recorded.recording.exchanges(5, 1, INIT_PRODUCER_ID, 4, *begun(500))
    numbered = write_batch([Record(0, 5, None, bytes(LARGE))], producer_id=500, producer_epoch=0, base_sequence=0)
    asked = request(batch(b"1", b"2", b"3"), numbered)
    both = [{"index": index, "error_code": 0, "base_offset": RECORDED_FROM} for index in range(2)]
    told = {"responses": [{"name": "a", "partition_responses": both}]}
    recorded.recording.exchanges(10, 1, PRODUCE, PRODUCE_VERSION, asked, told)
    offsets = replayed(recorded, target)._offsets
    assert target.log == [b"1", b"2", b"3"]
    assert offsets._ends[A0] == TARGET_FROM + 3
