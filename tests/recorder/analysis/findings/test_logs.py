"""Tests of the rules on batches that are duplicate, missing, damaged, ahead of time, uncompressed or read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from recorder.analysis.findings.judge import judge
from recorder.analysis.findings.rules import RULES
from recorder.analysis.findings.windows import Windows
from recorder.analysis.summary.sections.findings import Finding
from recorder.facts.batches import BATCHES
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from tests.recorder.analysis.by_hand import EVENT, EXCHANGE, NOON, Row, each_second, life, table_of

pytestmark = pytest.mark.real
NAMES = ("duplicates", "sequence_gaps", "bad_crc", "uncompressed", "clock", "times_in_seconds", "re_reads")
SECOND = 10**9
NOON_MS = round(NOON.timestamp() * 1000)
HEAD = {"session": "s", "cluster": "main", "connection": 1, "client": "10.0.0.1:5", "partition": 0, "magic": 2}
BATCH = HEAD | {"records": 10, "bytes": 1000, "codec": "lz4", "is_control": False, "is_intact": True}
BATCH |= {"timestamp_type": "create"}


def sent(topic: str, at: float, **facts: Any) -> Row:
    """A batch of a Produce request, at its second after noon."""
    own = {"topic": topic, "at": NOON + timedelta(seconds=at), "side": "request", "api": "Produce", "client_id": "app"}
    return (
        BATCH
        | own
        | {"exchange": round(at * 10), "crc": round(at * 1000), "max_timestamp_ms": NOON_MS + round(at * 1000)}
        | facts
    )


def read(topic: str, at: float, offset: int, **facts: Any) -> Row:
    """A batch of ten records in a Fetch response."""
    own = {"side": "response", "api": "Fetch", "connection": 9, "base_offset": offset, "last_offset": offset + 9}
    return sent(topic, at, **own | facts)


def minute(row: Callable[..., Row], per_second: float, **facts: Any) -> Iterable[Row]:
    """Rows of a minute; a callable value gets the number of the row."""
    for number in range(round(60 * per_second)):
        told = {name: fact(number) if callable(fact) else fact for name, fact in facts.items()}
        yield row(at=number / per_second, **told)


def reconnecting(client: str, first: int, offset: Callable[[int], int]) -> Iterable[Row]:
    """Four batches a second, each second's on a connection of its own."""
    return minute(read, 4, topic="t", client_id=client, connection=lambda at: first + at // 4, offset=offset)


def of_producer(number: int, sequence: int, **facts: Any) -> Row:
    return {"producer_id": number, "producer_epoch": 0, "base_sequence": sequence} | facts


def same(**facts: Any) -> Row:
    """The values that batches of equal content share."""
    return {"crc": 77, "max_timestamp_ms": NOON_MS} | facts


def scenario() -> list[Row]:
    return [
        # the same sequence at two offsets; told twice at one offset
        sent("twice by id", 1, base_offset=5, **of_producer(1, 0)),
        read("twice by id", 2, 15, **of_producer(1, 0)),
        sent("told twice", 1, base_offset=5, **of_producer(1, 0)),
        sent("told twice", 2, base_offset=5, **of_producer(1, 0)),
        # without an id: asked twice, answered once, read at two offsets
        sent("twice", 1, connection=2, **same()),
        sent("twice", 2, connection=2, base_offset=15, **same()),
        read("twice", 3, 5, **same()),
        read("twice", 3, 15, **same()),
        # answered at two offsets, the first time when the client had given up; or in time
        sent("too late", 1, connection=4, base_offset=5, **same()),
        sent("too late", 2, connection=5, base_offset=15, **same()),
        sent("in time", 1, connection=5, base_offset=5, **same()),
        sent("in time", 2, connection=5, base_offset=15, **same()),
        # the first one failed; the second is in the log once
        sent("retried", 1, connection=2, **same()),
        sent("retried", 2, connection=2, base_offset=15, **same()),
        read("retried", 3, 15, **same()),
        # equal records that were both sent and accepted; or sent without waiting for an answer
        sent("equal", 1, base_offset=5, **same()),
        sent("equal", 2, base_offset=15, **same()),
        sent("equal", 3, connection=2, **same()),
        sent("careless", 1, connection=3, **same()),
        sent("careless", 2, connection=3, **same()),
        read("careless", 3, 5, **same()),
        read("careless", 3, 15, **same()),
        # a client without an id that writes a sequence
        *(sent("counted", at, base_offset=10 * at, base_sequence=0) for at in range(3)),
        *(sent("counted", 3 + at, base_offset=50 * at, base_sequence=50 * at) for at in range(3)),
        # sequences: a gap; a retry; another epoch; a producer on a connection with a gap
        *(sent("gap", 5 + at, **of_producer(2, sequence)) for at, sequence in enumerate((0, 10, 30, 10, 40))),
        *(sent("again", 5 + at, **of_producer(3, sequence)) for at, sequence in enumerate((0, 10, 0, 10, 20))),
        *(sent("anew", 5 + at, **of_producer(4, 50 * at, producer_epoch=at)) for at in range(2)),
        *(sent("lost", 5 + at, connection=8, **of_producer(5, 50 * at)) for at in range(2)),
        # the second batch is refused: at once; after the third was sent; with an error that leaves it open
        *(sent(topic, 5 + at, **of_producer(6, 10 * at)) for topic in REFUSED for at in range(3)),
        sent("damaged", 5, is_intact=False),
        read("rotten", 5, 0, is_intact=False),
        # much that is large and not compressed; little; and what does not shrink
        *minute(sent, 4, topic="plain", codec="none", bytes=90_000, sampled_bytes=90_000, folded_bytes=20_000),
        *minute(sent, 4, topic="random", codec="none", bytes=90_000, sampled_bytes=90_000, folded_bytes=89_000),
        *minute(sent, 4, topic="little", codec="none", bytes=9_000, sampled_bytes=9_000, folded_bytes=1_000),
        *minute(sent, 4, topic="folded", bytes=90_000),
        *minute(sent, 2, topic="t", client_id="ahead", max_timestamp_ms=lambda at: NOON_MS + 500 * at + 90_000),
        *minute(sent, 2, topic="t", client_id="micros", max_timestamp_ms=lambda at: (NOON_MS + 500 * at) * 1000 + 7),
        *minute(sent, 2, topic="t", client_id="nanos", max_timestamp_ms=lambda at: (NOON_MS + 500 * at) * 10**6 + 7),
        *minute(sent, 2, topic="t", client_id="copier", max_timestamp_ms=lambda at: NOON_MS - 900_000),
        *minute(sent, 2, topic="t", client_id="nearly", max_timestamp_ms=lambda at: NOON_MS + 500 * at + 30_000),
        *minute(sent, 2, topic="seconds", client_id="old", max_timestamp_ms=lambda at: NOON_MS // 1000 + at),
        # connects anew every second, and reads the same once more; or goes on; or while its other connection is open
        *reconnecting("anew", 1000, lambda at: at % 4 * 10),
        *reconnecting("goes on", 2000, lambda at: at * 10),
        *reconnecting("twins", 3000, lambda at: at % 4 * 10),
        *minute(read, 4, topic="t", client_id="rewinds", connection=11, offset=lambda at: at % 20 * 10),
        *minute(read, 4, topic="t", client_id="reads on", connection=12, offset=lambda at: at * 10),
        *minute(read, 4, topic="t", client_id="seldom", connection=13, offset=lambda at: (at - at % 20 // 19) * 10),
    ]  # fmt: skip


# how the second batch to a topic is refused: seconds after noon, and the error
REFUSED = {"refused": (6.5, 10), "refused late": (7.5, 10), "timed out": (6.5, 7)}


def refusals() -> list[Row]:
    """The answers' partitions."""
    own = HEAD | {"side": "response", "api": "Produce", "exchange": 60}
    return [
        own | {"topic": topic, "error_code": error, "at": NOON + timedelta(seconds=at)}
        for topic, (at, error) in REFUSED.items()
    ]


@pytest.fixture(scope="module")
def found(tables: Any, spark: SparkSession) -> dict[str, list[Finding]]:
    start = round(NOON.timestamp()) * SECOND
    outcomes = {2: "unanswered", 3: "one_way"}
    asked = [
        EXCHANGE | {"connection": one, "exchange": at, "at": NOON, "outcome": outcome}
        for one, outcome in outcomes.items()
        for at in (10, 20, 30)
    ]
    batches = table_of(spark, BATCHES.table, scenario())
    gap = EVENT | {"kind": "gap", "connection": 8, "at": NOON, "cause": "queue_full"}
    late = EXCHANGE | {"connection": 4, "exchange": 10, "at": NOON, "answered_at": NOON + timedelta(seconds=2)}
    gone = EVENT | {"kind": "half_closed", "connection": 4, "at": NOON + timedelta(seconds=1)}
    gone |= {"detail": '{"by": "client"}'}
    partitions = table_of(spark, TOPIC_PARTITIONS.table, refusals())
    lives = [
        event
        for number in range(60)
        for first, lasted in ((1000, 0.9), (2000, 0.9), (3000, 90))
        for event in life(first + number, number, lasted)
    ]
    made = tables([*each_second(1), *asked, late], [gap, gone, *lives], all_batches=batches, partitions=partitions)
    made.windows = Windows({"s": (start, start + 60 * SECOND)})
    judged = judge(made, [rule for rule in RULES if rule.name in NAMES])
    assert not judged.unjudged.rows
    return {name: [one for one in judged.every if one.rule == name] for name in NAMES}


def test_batches_that_stand_in_a_log_twice_are_found_and_retries_and_equal_batches_are_not(found: Any) -> None:
    assert sorted(one.subject for one in found["duplicates"]) == ["too late", "twice", "twice by id"]
    assert {one.measure for one in found["duplicates"]} == {1}


def test_a_sequence_that_leaps_is_found_and_a_retry_a_new_epoch_or_a_gap_of_the_capture_is_not(found: Any) -> None:
    (one,) = [one for one in found["sequence_gaps"] if one.subject != "app at 10.0.0.1 to refused"]
    assert (one.subject, one.measure) == ("app at 10.0.0.1 to gap", 1)
    assert [piece.at_ns for piece in one.evidence] == [(NOON_MS + 7000) * 1_000_000]


def test_a_sequence_that_continues_after_a_refused_batch_is_found_and_one_in_flight_is_not(found: Any) -> None:
    (one,) = [one for one in found["sequence_gaps"] if one.subject != "app at 10.0.0.1 to gap"]
    assert (one.subject, one.measure) == ("app at 10.0.0.1 to refused", 1)
    assert [piece.at_ns for piece in one.evidence] == [(NOON_MS + 7000) * 1_000_000]


def test_damaged_batches_are_found_by_where_they_were_damaged(found: Any) -> None:
    subjects = {one.subject for one in found["bad_crc"]}
    assert subjects == {"sent to damaged", "read from rotten"}
    assert "Batches sent to damaged that do not match their checksum: 1" in {one.sentence for one in found["bad_crc"]}


def test_large_compressible_topics_are_found_and_small_or_random_ones_are_not(found: Any) -> None:
    (one,) = found["uncompressed"]
    assert (one.subject, one.measure) == ("plain", 4.5)
    assert one.sentence.startswith("plain is 32 % of what is written, without compression")


@pytest.mark.long
def test_a_topic_that_is_all_there_is_but_hardly_anything_needs_no_codec(tables: Any, spark: SparkSession) -> None:
    """Like the topics of consumers' tests: 236 bytes a batch, a kilobyte a second."""
    rows = minute(sent, 4, topic="small", codec="none", bytes=236, sampled_bytes=236, folded_bytes=110)
    made = tables(each_second(1), all_batches=table_of(spark, BATCHES.table, [*rows]))
    (rule,) = (rule for rule in RULES if rule.name == "uncompressed")
    assert judge(made, [rule]).quiet == ("uncompressed",)


def test_a_clock_that_is_a_minute_ahead_is_found_and_old_records_are_not(found: Any) -> None:
    one = next(one for one in found["clock"] if one.subject == "ahead at 10.0.0.1")
    assert one.measure == 90_000
    assert " ahead of the proxy's clock (at worst: " in one.sentence
    assert "NTP" in one.advice


def test_times_in_microseconds_and_nanoseconds_are_told_by_their_unit_and_not_as_clocks(found: Any) -> None:
    told = {one.subject: one for one in found["clock"]}
    assert told.keys() == {f"{client} at 10.0.0.1" for client in ("ahead", "micros", "nanos")}
    for client, unit in (("micros", "microseconds"), ("nanos", "nanoseconds")):
        one = told[f"{client} at 10.0.0.1"]
        said = f"Records of {one.subject} carry times in {unit}, which Kafka takes for milliseconds (at worst: "
        assert one.sentence.startswith(said)
        assert "NTP" not in one.advice


def test_a_consumer_that_reads_records_again_is_found(found: Any) -> None:
    measures = {one.subject: one.measure for one in found["re_reads"]}
    assert measures == {"rewinds at 10.0.0.1 of t": 1, "anew at 10.0.0.1 of t": 1}


def test_times_in_seconds_are_found(found: Any) -> None:
    (one,) = found["times_in_seconds"]
    assert (one.subject, one.measure) == ("old at 10.0.0.1 to seconds", 120)
