"""The tables of facts: the one place that says which facts of a frame are kept, and under which number.

A capture keeps facts beside its frames (`recorder.capture.fact_files`). A table here is a `Decoder`: its columns, the
frames that it reads, and what it makes of one. A change of a column, of its meaning or of a row takes a new NUMBER:
facts of another number are made anew from the frames, so there are no upgrade steps.

Facts hold what a frame says, as it says it: a topic's name or its id, the partitions that a Fetch names and not those
of its session. What other frames must tell (an id's name, a session's partitions) is up to readers of a whole capture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.wire import keys
from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.errors import WireError
from recorder.facts.answers import read_answer, read_values, waits
from recorder.facts.batches import BATCHES
from recorder.facts.frame import REQUEST, RESPONSE, Frame, Unreadable, opened
from recorder.facts.group_offsets import GROUP_FACTS
from recorder.facts.metadata import METADATA_STATES
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.rows import Decoder, FrameSelector, Group, Many
from recorder.facts.schema import Column
from recorder.facts.software import OFFERS
from recorder.facts.topic_errors import TOPIC_ERROR_FACTS
from recorder.facts.topic_partitions import PARTITION_FACTS
from recorder.facts.topics import PARTITION_APIS, contents, places
from recorder.facts.transactions import TRANSACTION_FACTS

if TYPE_CHECKING:
    from recorder.facts.plain_messages import PlainMessages

# of all tables together
NUMBER = 2

_FRAME_FACTS = (
    Column("error_code", "smallint", "the first code other than 0 of an answer; null: none, or unknown"),
    Column(
        "error_codes", "array<smallint>", "all of them, each as often as it occurs; null in requests, and if unknown"
    ),
    Column("wait", "string", "of answers: how a long poll ended"),
    Column("throttle_ms", "int", "of answers: how long the client is to wait for a quota; null: no such field"),
    Column("partitions", "int", "how many partitions the frame names, if its api is about partitions"),
    Column("acks", "smallint", "of Produce requests"),
    Column("fetch_session", "int", "of Fetch: the session's id; 0 for none; null before version 7"),
    Column("fetch_error", "smallint", "of Fetch answers: the code of the answer itself; null before version 7"),
    Column("fetch_epoch", "int", "of Fetch requests: counts the session's requests: 0 opens one, -1 closes it"),
    Column(
        "replica_id", "int", "of Fetch requests: the node id of the broker that copies; null: a consumer asks", True
    ),
    Column("software", "string", "of ApiVersions requests: the client's library; null before version 3"),
    Column("software_version", "string", "of ApiVersions requests: its version"),
    Column(
        "unopened",
        "string",
        "of answers: why `partitions` and `fetch_session` are unknown; `unread` says why the codes are",
    ),
)
# the APIs whose answers are read by their values
_BY_VALUES = (keys.PRODUCE, keys.FETCH)
_NO_ANSWER = (None,) * 4
# fetch_epoch to software_version
_NO_REQUEST = (None,) * 4
# partitions to software_version
_NO_COUNTS = (None,) * 8


def _read_frame(frame: Frame, budget: Budget) -> tuple[Group]:
    """The single row of a frame. Errors: Unreadable."""
    is_kafka = frame.dialect == Dialect.KAFKA
    if frame.side == RESPONSE:
        if is_kafka and frame.api_key in _BY_VALUES and frame.masked_from is None:
            row, unread = _opened_answer(frame, budget)
        else:
            row, unread = _other_answer(frame, budget, is_kafka and frame.api_key in PARTITION_APIS)
        return (Group((), [row], unread),)
    return (Group((), [(*_NO_ANSWER, *(_asked(frame, budget) if is_kafka else _NO_COUNTS), None)]),)


def _other_answer(frame: Frame, budget: Budget, has_partitions: bool) -> tuple[tuple[Any, ...], str | None]:
    """The row of an answer that is opened only to count its partitions; and why its codes are unknown."""
    answered, unread = _answered(frame, budget)
    counted = None
    if has_partitions and unread is None:
        try:
            counted = len(places(frame, budget))
        except Unreadable as error:
            # the codes were found before what can't be read
            return (*answered, *_NO_COUNTS, error.reason), unread
    return (*answered, counted, None, None, None, *_NO_REQUEST, None), unread


def _opened_answer(frame: Frame, budget: Budget) -> tuple[tuple[Any, ...], str | None]:
    """The row of an answer to Produce or Fetch, by its values, which other tables need too; else as `_other_answer`."""
    try:
        values, found = contents(frame, budget)
    except Unreadable as error:
        # its codes may stand before what can't be read
        answered, unread = _answered(frame, budget)
        return (*answered, *_NO_COUNTS, error.reason), unread
    unread = None
    try:
        codes, wait, throttle = read_values(frame, values, found)
        answered = codes[0] if codes else None, codes, wait, throttle
    except WireError:
        # a batch is no batch: the codes are known, the wait is not
        answered, unread = _answered(frame, budget)
    told = len(found), None, values.get("session_id"), values.get("error_code")
    return (*answered, *told, *_NO_REQUEST, None), unread


def _answered(frame: Frame, budget: Budget) -> tuple[tuple[Any, ...], str | None]:
    """Codes, wait and throttle time of an answer, by its bytes; and why they are unknown."""
    ((_, ((codes, wait, throttle),), unread, _),) = read_answer(frame, budget)
    return (codes[0] if codes else None, codes, wait, throttle), unread


def _asked(frame: Frame, budget: Budget) -> tuple[Any, ...]:
    """What a request says; it is opened only if its api has facts."""
    key = frame.api_key
    if key == keys.API_VERSIONS:
        values = opened(frame, budget)
        named = values.get("client_software_name"), values.get("client_software_version")
        return (*(None,) * 6, *named)
    if key not in PARTITION_APIS:
        return _NO_COUNTS
    values, found = contents(frame, budget)
    counted = len(found)
    if key == keys.PRODUCE:
        return counted, values["acks"], *(None,) * 6
    if key != keys.FETCH:
        return counted, *(None,) * 7
    replica = values.get("replica_id")
    if replica is None:
        replica = (values.get("replica_state") or {}).get("replica_id", -1)
    session = values.get("session_id"), None, values.get("session_epoch")
    return counted, None, *session, replica, None, None


def _read_many(messages: PlainMessages) -> Many:
    """As `_read_frame`, of many plain messages: no answer among them has an error."""
    field, counted = messages.of_message, messages.counts
    if messages.side == RESPONSE:
        answered = None, messages.no_codes, waits(messages), field("throttle_time_ms")
        columns = *answered, counted, None, field("session_id"), field("error_code"), *_NO_REQUEST, None
    else:
        session = field("session_id"), None, field("session_epoch")
        columns = *_NO_ANSWER, counted, field("acks"), *session, field("replica_id"), None, None, None
    return Many(messages.numbers, columns)


FRAME_FACTS = Decoder(
    "frames",
    "a request or a response",
    tuple(FrameSelector(side, None, dialect.value) for side in (REQUEST, RESPONSE) for dialect in Dialect),
    (),
    _FRAME_FACTS,
    _read_frame,
    read_many=_read_many,
)
TABLES: tuple[Decoder, ...] = (
    FRAME_FACTS,
    PARTITION_FACTS,
    BATCHES,
    GROUP_FACTS,
    TRANSACTION_FACTS,
    METADATA_STATES,
    ANSWERED_NAMES,
    OFFERS,
    TOPIC_ERROR_FACTS,
)
