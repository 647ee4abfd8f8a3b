"""The table of answers: their error codes, throttle times, and the ends of long polls. One row an answer.

An answer's head stands in the frames; what it says, in facts. Of frames without facts:
Spark's own expressions read an error code that is an answer's only one and has a fixed offset, and make the rows of
unknown versions. All other answers go through Python (`decode.answers`); on the jvm road, only those that are
stored whole and small enough: Spark makes the rows of the rest.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from proxy.wire.dialects import Dialect
from proxy.wire.error_reader import Places, Unread
from proxy.wire.keys import JOIN_GROUP, SYNC_GROUP
from proxy.wire.long_polls import LONG_POLLS, Wait
from recorder.analysis import columns as t
from recorder.analysis.bodies import Captured, fact_table, opened_rows
from recorder.analysis.from_facts import FRAME_KEY
from recorder.capture import frames as c
from recorder.facts import answers as decode
from recorder.facts.frame import RESPONSE
from recorder.facts.rows import SIDE
from recorder.facts.tables import FRAME_FACTS

# versions that `_table` has for each api: no api has more
_VERSIONS = 32
_CODES = "array<smallint>"
# the columns of `_table`
_CODE_AT, _TAGS, _THROTTLE = "_code_at", "_tags", "_throttle"
# whether facts have the answer
_TOLD = "_told"
# of a version that has no fixed code
_NOWHERE = Places(None, None, None)
# entries of a version
_WIDTH = len(_NOWHERE)
# the columns that say whether an unreadable answer may have waited
_TO_TELL_A_WAIT = (c.API_KEY, c.DIALECT)


def answers(captured: Captured, wanted: Collection[str] | None = None) -> DataFrame:
    """One row an answer: the head columns of `decode.answers.HEADS`, ERROR_CODES, WAIT, THROTTLE_MS, UNREAD.

    ERROR_CODES holds every code other than 0, as often as it occurs. If the answer could not be read, it is null, and
    UNREAD says why. WAIT is null except for long polls (`proxy.wire.long_polls`).

    `wanted`: the columns that are needed. Each further one costs its way to Python and back.
    """
    parts = [] if captured.facts is None else [_by_facts(captured.of_facts, wanted)]
    others = captured.without_facts
    if others is not None:
        parts.append(_by_bodies(others, wanted))
    return reduce(DataFrame.unionByName, parts)


def _by_facts(captured: Captured, wanted: Collection[str] | None) -> DataFrame:
    """Answers' heads, with what facts say of them. Frames of unknown APIs have no facts."""
    said = [t.ERROR_CODES, t.WAIT, t.THROTTLE_MS, t.UNREAD]
    told = fact_table(captured, FRAME_FACTS).filter(F.col(SIDE) == RESPONSE)
    heads = answer_frames(captured.chosen).select(*(column.name for column in decode.HEADS), c.SEQUENCE, c.STORED)
    both = heads.join(told.select(*FRAME_KEY, *said, F.lit(True).alias(_TOLD)), FRAME_KEY, "left")
    unread = F.when(F.col(_TOLD), F.col(t.UNREAD)).otherwise(
        _unread_by_head(captured.largest).otherwise(Unread.UNKNOWN_VERSION.value)
    )
    found = both.withColumns({t.UNREAD: unread, t.WAIT: F.coalesce(t.WAIT, _wait_by_head())})
    names = decode.answers(None if wanted is None else frozenset(wanted)).table.names
    return found.select(*(name for name in names if wanted is None or name in wanted))


def _by_bodies(captured: Captured, wanted: Collection[str] | None) -> DataFrame:
    decoder = decode.answers(None if wanted is None else frozenset({*wanted, *_TO_TELL_A_WAIT}))
    by_python, is_by_python = opened_rows(captured, decoder)
    unread_wait = F.coalesce(t.WAIT, _wait_by_head())
    by_spark = _by_spark(answer_frames(captured.chosen).filter(~is_by_python), captured.largest)
    found = by_python.withColumn(t.WAIT, unread_wait).unionByName(by_spark.select(*decoder.table.names))
    return found if wanted is None else found.select(*(name for name in decoder.table.names if name in wanted))


def answers_without_bodies(captured: Captured) -> DataFrame:
    """One row an answer, without reading bodies: the columns of HEADS, and WAIT: "includes_wait" for a long poll."""
    names = [column.name for column in decode.HEADS]
    return answer_frames(captured.chosen).select(*names, _wait_by_head().alias(t.WAIT))


def answer_frames(frames: DataFrame) -> DataFrame:
    """The answers among the frames that belong to an exchange."""
    return frames.filter((F.col(c.KIND) == c.RESPONSE) & F.col(c.EXCHANGE).isNotNull())


def _by_spark(found: DataFrame, largest: int) -> DataFrame:
    placed = found.withColumns({_CODE_AT: _at(0), _TAGS: _at(1), _THROTTLE: _at(2)})
    unread = _unread(largest)
    codes = F.when(unread.isNull(), _codes())
    members = F.col(c.API_KEY).isin(JOIN_GROUP, SYNC_GROUP) & unread.isNull()
    wait = F.when(members & _is_kafka(), Wait.MEMBERS.value).otherwise(_wait_by_head())
    throttle = F.when(unread.isNull(), _throttle())
    return placed.withColumns({t.UNREAD: unread, t.ERROR_CODES: codes, t.WAIT: wait, t.THROTTLE_MS: throttle})


def _at(which: int) -> Column:
    """An entry of `_table` for the row's api and version; null if there is none. `which`: its position in `Places`."""
    version = F.when(F.col(c.API_VERSION).between(0, _VERSIONS - 1), F.col(c.API_VERSION).cast("int"))
    row = F.when(_is_kafka() & (F.col(c.API_KEY) >= 0), F.col(c.API_KEY).cast("int") * _VERSIONS + version)
    found = F.ascii(F.substr(F.lit(_table()), _WIDTH * row + which + 1, F.lit(1)).cast("string"))
    return F.when(found > 0, found - 1)


@cache
def _table() -> bytes:
    """Offsets by api key and version: of the error code, the header's tags, the throttle time. Each is a byte.

    The byte is the offset plus 1, or 0 for none. The table is one binary literal, because Spark's optimizer rules visit
    each element of an array literal: that takes longer than the scan.
    """
    found = decode.fixed()
    last = max(key for key, _ in found)
    rows = (found.get((key, version), _NOWHERE) for key in range(last + 1) for version in range(_VERSIONS))
    return bytes(0 if place is None else place + 1 for row in rows for place in row)


def _unread(largest: int) -> Column:
    """The reason why the answer's only code can't be read; null if it can."""
    is_short = F.col(c.SIZE) < F.col(_CODE_AT) + 2
    # a span without a start may begin anywhere
    masked_from = F.coalesce(F.get(F.col(c.MASKED), F.lit(0))["start"], F.lit(0))
    is_masked = (F.size(c.MASKED) > 0) & (masked_from < F.col(_CODE_AT) + 2)
    is_cut = F.coalesce(F.col(c.NOTE).startswith(c.CUT), F.lit(False))
    # Kafka defines no header tags; behind unknown ones the code has another offset
    has_tags = F.col(_TAGS).isNotNull() & (_hex(F.col(_TAGS), 1) != "00")
    return (
        _unread_by_head(largest)
        .when(F.col(_CODE_AT).isNull(), Unread.UNKNOWN_VERSION.value)
        .when(F.col(c.FRAME).isNull(), Unread.OMITTED.value)
        .when(is_masked, Unread.MASKED.value)
        .when(is_short & is_cut, Unread.CUT.value)
        .when(is_short | has_tags, Unread.MALFORMED.value)
    )


def _unread_by_head(largest: int) -> Column:
    """Why the frame is not opened, whatever its API is; null if it can be."""
    is_partial = F.coalesce(F.col(c.STORED) != F.col(c.SIZE), F.lit(True))
    return F.when(is_partial, Unread.OMITTED.value).when(F.col(c.SIZE) > largest, Unread.TOO_LARGE.value)


def _codes() -> Column:
    two = _hex(F.col(_CODE_AT), 2)
    return F.when(two == "0000", F.array().cast(_CODES)).otherwise(F.array(_signed(two, 16).cast("smallint")))


def _throttle() -> Column:
    return _signed(_hex(F.col(_THROTTLE), 4), 32).cast("int")


def _signed(digits: Column, bits: int) -> Column:
    """The number in two's complement that these hexadecimal digits are."""
    number = F.conv(digits, 16, 10).cast("bigint")
    return F.when(number >= 1 << bits - 1, number - (1 << bits)).otherwise(number)


def _hex(at: Column, length: int) -> Column:
    """Bytes of the frame as hexadecimal digits: the embedded engine cuts texts, but no binary values."""
    return F.when(at.isNotNull(), F.substr(F.hex(c.FRAME), 2 * at + 1, F.lit(2 * length)))


def _is_kafka() -> Column:
    return F.col(c.DIALECT) == Dialect.KAFKA.value


def _wait_by_head() -> Column:
    return F.when(F.col(c.API_KEY).isin(*LONG_POLLS) & _is_kafka(), Wait.INCLUDES_WAIT.value)
