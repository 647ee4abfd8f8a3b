"""The twin of facts: each decoder of analysis makes rows of a frame, and facts must tell the same.

`VIEWS` says how each decoder's rows follow from the facts of one frame.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from proxy.wire import api_name
from recorder.capture.frames import frames_schema
from recorder.facts.answers import answers
from recorder.facts.batches import BATCHES, PRODUCED_OFFSETS
from recorder.facts.fetch_sessions import FETCH_ANSWERS, FETCH_REQUESTS, FETCH_SIZES
from recorder.facts.group_joins import JOINS
from recorder.facts.group_offsets import GROUP_STEPS
from recorder.facts.log_ends import FETCHED_ENDS, PAIRED_ENDS
from recorder.facts.memberships import HEARTBEAT_ANSWERS, HEARTBEAT_REQUESTS, HEARTBEATS
from recorder.facts.metadata import METADATA_STATES
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.rows import Decoder, DecoderIndex, decoded_together
from recorder.facts.software import OFFERS, REPLICAS, SOFTWARE
from recorder.facts.tables import TABLES
from recorder.facts.topic_errors import TOPIC_ERRORS
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from recorder.facts.transactions import MARKERS, TRANSACTION_ANSWERS, TRANSACTION_STEPS
from tests.recorder.facts.frames import Row, rows

ANSWERS = answers()
HEADS_OF_ANSWERS = {column.name for column in ANSWERS.frame_columns}
HEADS = {column.name for column in TOPIC_PARTITIONS.frame_columns}
PLACE = {"topic", "topic_id", "partition"}
Facts = dict[str, list[Row]]


def facts_of(frames: list[Row]) -> Facts:
    """The rows of each table of facts."""
    index = DecoderIndex(TABLES, for_facts=True)
    table = pa.Table.from_pylist(frames, frames_schema()).select(index.reads)
    found: Facts = {decoder.name: [] for decoder in TABLES}
    for decoder, batch in decoded_together(table.to_batches(), index):
        found[decoder.name] += batch.to_pylist()
    return found


def alike(row: Row, decoder: Decoder) -> Row:
    """A row of facts with the columns of a decoder's table."""
    return {name: row.get(name) for name in decoder.table.names}


def wanted(frame: Row, decoder: Decoder) -> bool:
    kind = frame["kind"], frame["dialect"], frame["api_key"], frame["api_version"]
    return any(selector.has(*kind) for selector in decoder.selectors)


def of_frame(facts: Facts) -> list[Row]:
    return facts["frames"]


def partitions(facts: Facts) -> list[Row]:
    """A frame with a batch that can't be read has one row in `topic_partitions`."""
    found = [row for row in facts["partitions"] if not row["is_forgotten"]]
    return [row for row in found if row["unread"]] or found


def all_partitions(facts: Facts) -> list[Row]:
    """A bad batch spoils no partition; a frame that can't be opened has a row that says so."""
    return [row for row in facts["partitions"] if not row["unread"]] or facts["partitions"]


def produced_offsets(facts: Facts) -> list[Row]:
    return facts["partitions"]


def fetched(facts: Facts) -> list[Row]:
    """The request's own row, and one for each of its partitions."""
    (frame,) = facts["frames"]
    session = {name: frame[name] for name in ("fetch_session", "fetch_epoch")}
    return [frame, *(row | session for row in facts["partitions"] if row["partition"] is not None)]


def fetch_answer(facts: Facts) -> list[Row]:
    (frame,) = facts["frames"]
    told = {"answered_session": frame["fetch_session"], "answered_error": frame["fetch_error"]}
    unread = frame["unopened"] or frame["unread"] if frame["partitions"] is None else None
    return [frame | told | {"unread": unread}]


def ends(facts: Facts) -> list[Row]:
    found = []
    for row in all_partitions(facts):
        is_request, key = row["side"] == "request", row["api"]
        if row["unread"]:
            found.append(row)
            continue
        if row["is_forgotten"] or (row["error_code"] and not is_request):
            continue
        if key == "Fetch":
            end = {"end_offset": row["high_watermark"], "stable_offset": row["last_stable_offset"]}
            end["control_offsets"] = row["control_offsets"] or []
        elif key == "Produce":
            end = (
                {"offsets": row["records"] or 0 if row["bytes"] == 0 else row["records"]}
                if is_request
                else {"first_offset": row["base_offset"]}
            )
        elif is_request:
            if row["timestamp_ms"] != -1 or row["isolation_level"]:
                continue
            end = {"is_asked": True}
        else:
            end = {"first_offset": row["offset"]}
        found.append({**dict.fromkeys(row), **{n: row[n] for n in row if n in HEADS | PLACE}, **end})
    return found


def group_steps(facts: Facts) -> list[Row]:
    return [row for row in facts["group_steps"] if row["api"] not in map(api_name, HEARTBEATS)]


def heartbeats(facts: Facts) -> list[Row]:
    return [row for row in facts["group_steps"] if row["api"] in map(api_name, HEARTBEATS)]


def joins(facts: Facts) -> list[Row]:
    return facts["group_steps"]


def steps(facts: Facts) -> list[Row]:
    return [row for row in facts["transaction_steps"] if row["side"] == "request"]


def markers(facts: Facts) -> list[Row]:
    return [row for row in facts["transaction_steps"] if row["side"] == "response" and row["api"] == "Fetch"]


def transaction_answers(facts: Facts) -> list[Row]:
    found = [row for row in facts["transaction_steps"] if row["side"] == "response" and row["api"] != "Fetch"]
    told = {"producer_id": "answered_producer_id", "producer_epoch": "answered_producer_epoch"}
    found = [row | {new: row[name] for name, new in told.items()} for row in found]
    for row in facts["frames"]:
        if row["api"] == "Produce":
            codes = [one["error_code"] for one in all_partitions(facts)]
            unread = row["unopened"] or row["unread"] if row["partitions"] is None else None
            is_refused = None if unread else bool(codes) and all(codes)
            # codes may be readable where the rest of the answer is not
            code = None if unread else row["error_code"]
            found.append(row | {"is_refused": is_refused, "error_code": code, "unread": unread})
    return found


def topic_errors(facts: Facts) -> list[Row]:
    of_partitions = [row for row in all_partitions(facts) if row["error_code"] or row["unread"]]
    return facts["topic_errors"] + of_partitions


VIEWS: list[tuple[Decoder, Callable[[Facts], list[Row]]]] = [
    (ANSWERS, of_frame),
    (SOFTWARE, of_frame),
    (REPLICAS, of_frame),
    (FETCH_SIZES, of_frame),
    (FETCH_ANSWERS, fetch_answer),
    (FETCH_REQUESTS, fetched),
    (TOPIC_PARTITIONS, partitions),
    (PRODUCED_OFFSETS, produced_offsets),
    (FETCHED_ENDS, ends),
    (PAIRED_ENDS, ends),
    (BATCHES, lambda facts: facts["batches"]),
    (GROUP_STEPS, group_steps),
    (HEARTBEAT_REQUESTS, heartbeats),
    (HEARTBEAT_ANSWERS, heartbeats),
    (JOINS, joins),
    (TRANSACTION_STEPS, steps),
    (TRANSACTION_ANSWERS, transaction_answers),
    (MARKERS, markers),
    (METADATA_STATES, lambda facts: facts["metadata_states"]),
    (ANSWERED_NAMES, lambda facts: facts["answered_names"]),
    (OFFERS, lambda facts: facts["offers"]),
    (TOPIC_ERRORS, topic_errors),
]


def assert_tells_all(frame: Row) -> None:
    facts = facts_of([frame])
    for decoder, view in VIEWS:
        if wanted(frame, decoder):
            told = [alike(row, decoder) for row in view(facts)]
            # frames' heads stand in frames, and not once more in facts
            heads = set(decoder.table.names) & HEADS_OF_ANSWERS if decoder is ANSWERS else set()
            twin = [{name: row[name] for name in row if name not in heads} for row in rows(decoder, frame)]
            assert [{name: row[name] for name in row if name not in heads} for row in told] == twin, decoder.name
