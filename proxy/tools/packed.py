"""Record batches decoded for people: each batch's header, and a limited number of records.

A missing value (no producer id, no headers, a time that is not set) is left out. Unreadable bytes are a result, with
the reason in `why`, and not an error.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from proxy.wire import embedded
from proxy.wire.budget import Budget
from proxy.wire.errors import OverBudget, WireError

if TYPE_CHECKING:
    from proxy.wire.records import Batch, Record

# The memory of the dicts of a batch's header, a record and a header, with the numbers in them.
BATCH_COST, RECORD_COST, HEADER_COST = 2000, 1000, 300
# (key, value, True in a control batch) -> the members to show for them
Sides = Callable[[bytes | None, bytes | None, bool], dict[str, Any]]


def opened_records(data: bytes, max_records: int, sides: Sides, budget: Budget) -> list[dict[str, Any]]:
    """A dict for each batch (or message of the old formats); at the end, one for cut or unreadable bytes.

    `max_records`: the most records shown over all batches.
    """
    from proxy.wire import records

    trees: list[dict[str, Any]] = []
    at = 0
    try:
        for batch in records.batches(data):
            budget.values.take(BATCH_COST)
            trees.append(_header(batch) | {"records": []})
            if records.is_blank(data, batch):
                trees[-1] |= {"note": "its records are not kept"}
                at = batch.end
                continue
            shown = trees[-1]["records"]
            for record in islice(records.read_batch(data, batch, budget=budget), max_records):
                budget.values.take(RECORD_COST + HEADER_COST * len(record.headers))
                shown.append(_record(record, batch.control, sides))
            more = (batch.count or 0) - len(shown)
            trees[-1] |= {"more_records": more} if more > 0 else {}
            max_records -= len(shown)
            at = batch.end
            # the records are shown, even if nothing is left to check them
            with suppress(OverBudget):
                remark = records.remark(data, batch, budget) if shown else ""
                trees[-1] |= {"note": remark} if remark else {}
    except (WireError, ModuleNotFoundError) as error:
        return [*trees, {"why": f"can't be read: {error}", "bytes": data[at:]}]
    return trees + ([{"why": "a batch that is cut", "bytes": data[at:]}] if at < len(data) else [])


def _header(batch: Batch) -> dict[str, Any]:
    facts: dict[str, Any] = {"magic": batch.magic, "base_offset": batch.base_offset, "last_offset": batch.last_offset}
    facts |= {"count": batch.count, "codec": batch.codec.value, "timestamp_type": batch.timestamp_type.value}
    facts |= {"max_timestamp": batch.max_timestamp, "leader_epoch": batch.leader_epoch}
    facts |= {"producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch}
    facts |= {"base_sequence": batch.base_sequence, "transactional": batch.transactional or None}
    facts |= {"control": batch.control or None, "crc": f"{batch.crc:08x}"}
    return {name: value for name, value in facts.items() if value is not None and value != -1}


def _record(record: Record, control: bool, sides: Sides) -> dict[str, Any]:
    tree: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    tree |= {"control": record.control.value} if record.control else {}
    tree |= sides(record.key, record.value, control)
    headers = [{"name": name, "value": value} for name, value in record.headers]
    return tree | ({"headers": headers} if headers else {})


def log_record(
    topic: str | None, key: bytes | None, value: bytes | None, control: bool, budget: Budget
) -> dict[str, Any]:
    """A record's `key` and `value`: embedded messages in internal topics and control batches, otherwise the bytes.

    `why` is added if they can't be read.
    """
    try:
        if control:
            found: embedded.LogRecord | None = embedded.decode_control(key, value, budget=budget)
        else:
            found = embedded.decode_record(topic or "", key, value, budget=budget)
    except WireError as error:
        return {"key": key, "value": value, "why": f"can't be read: {error}"}
    if found is None:
        return {"key": key, "value": value}
    read = isinstance(found.key, embedded.Embedded), isinstance(found.value, embedded.Embedded)
    return {"key": found.key if read[0] else key, "value": found.value if read[1] else value}
