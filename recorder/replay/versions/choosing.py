"""Chooses the version in which a request is sent to the target, and changes the request and its answer for it.

A request goes in its recorded version if the target has it, else in the highest shared version below, else in the
lowest above. Its values are taken to that version, and the answer's back to the recorded one: field by field
(`recode`), and over boundaries that change more than single fields (`crossings`, `answer_crossings`). A request that
the other version can't express is withheld, with the field or the reason.

Values have the target's names and ids, in the recorded version's form. If the target's version asks for a topic by id,
the id is looked up here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from proxy.wire.apis import versions
from proxy.wire.catalog import CACHE_SIZE
from proxy.wire.errors import WireError
from proxy.wire.keys import END_TXN, METADATA, PRODUCE, TXN_OFFSET_COMMIT
from recorder.replay.plan import Reason, Values, Withheld
from recorder.replay.versions.answer_crossings import ANSWERS
from recorder.replay.versions.crossings import REQUESTS
from recorder.replay.versions.recode import Loss, Topics, completed, recoded

__all__ = ["Topics", "newest_of_transactions_v1", "request", "response", "version_to_send"]

# Brokers of 4.0 and later offer Produce from version 0 for librdkafka's sake (KAFKA-18659), but refuse versions 0 to 2.
FIRST_PRODUCE_OF_BATCHES, FIRST_PRODUCE_OF_4 = 3, 12
# below this version asking for a topic may create it, and no field prevents that
FIRST_METADATA_WITHOUT_CREATION = 4
# The first versions with transactions v2 (KIP-890): partitions and groups join a transaction by being written to.
TRANSACTIONS_V2 = {PRODUCE: 12, TXN_OFFSET_COMMIT: 5, END_TXN: 5}
NOTHING: Mapping[str, Any] = {}


@lru_cache(CACHE_SIZE)
def version_to_send(
    api_key: int, recorded_version: int, offered: range | None, *, newest: int | None = None
) -> int | None:
    """The version to send: the highest shared one up to the recorded one, else the lowest above, else None.

    Args:
        offered: by the target's node; None if it lacks the API.
        newest: the highest version that may be used.
    """
    known = versions(api_key)
    if not offered or not known:
        return None
    first = max(offered[0], known[0], _floor(api_key, offered))
    last = min(offered[-1], known[-1], known[-1] if newest is None else newest)
    if first > last:
        return None
    return max(first, min(last, recorded_version))


def _floor(api_key: int, offered: range) -> int:
    """The lowest version that may be used of those offered."""
    if api_key == METADATA:
        return FIRST_METADATA_WITHOUT_CREATION
    return FIRST_PRODUCE_OF_BATCHES if api_key == PRODUCE and offered[-1] >= FIRST_PRODUCE_OF_4 else 0


def newest_of_transactions_v1(api_key: int) -> int | None:
    """The highest version for a target whose feature `transaction.version` is below 2; None: any."""
    first = TRANSACTIONS_V2.get(api_key)
    return None if first is None else first - 1


def request(
    api_key: int, recorded: int, chosen: int, values: Values, crossing: Topics
) -> Values | list[Values] | Withheld:
    """The values of a request in the chosen version; a list if each element is a request of its own.

    `values` are not changed. They may have fields that only the chosen version has.
    """
    if recorded == chosen:
        return values
    try:
        parts = _parts(api_key, recorded, chosen, values, crossing)
    except Loss as loss:
        return loss.withheld
    except WireError as error:
        return Withheld(Reason.OPAQUE, str(error))
    return parts if _is_split(api_key, recorded, chosen) else parts[0]


def _is_split(api_key: int, recorded: int, chosen: int) -> bool:
    crossed = _boundaries(REQUESTS, api_key, recorded, chosen)
    return recorded > chosen and any(REQUESTS[boundary].splits for boundary in crossed)


def _parts(api_key: int, at: int, to: int, values: Values, topics: Topics) -> list[Values]:
    parts, upwards = [values], at < to
    for boundary in _boundaries(REQUESTS, api_key, at, to):
        near, far = _sides(boundary, upwards)
        crossed = REQUESTS[boundary]
        if step := crossed.up if upwards else crossed.down:
            parts = [recoded("request", api_key, at, near, part, topics) for part in parts]
            parts = [after for part in parts for after in step(part, topics)]
            at = far if crossed.anew else near
    return [recoded("request", api_key, at, to, part, topics) for part in parts]


def response(
    api_key: int,
    sent: int,
    recorded: int,
    values: Values | Sequence[Values],
    names: Topics,
    asked: Mapping[str, Any] = NOTHING,
) -> Values:
    """The target's answer in the recorded version's form, with all fields of that.

    Args:
        values: the answer to a request of version `sent`, or those to all its parts, in order.
        asked: the request in the recorded version's form, which tells what the parts asked for.
    """
    answers = [values] if isinstance(values, Mapping) else list(values) or [{}]
    if sent == recorded:
        return answers[0]
    at = sent
    for boundary in _boundaries(ANSWERS, api_key, sent, recorded):
        near, far = _sides(boundary, sent < recorded)
        answers = [recoded("response", api_key, at, near, one, names) for one in answers]
        crossed = ANSWERS[boundary]
        answers, at = [crossed.up(answers, asked) if sent < recorded else crossed.down(answers[0])], far
    return completed("response", api_key, at, recorded, answers[0], names)


def _boundaries(table: Collection[tuple[int, int]], api_key: int, at: int, to: int) -> list[tuple[int, int]]:
    """The table's keys between two versions, in the order of the way."""
    between = range(min(at, to), max(at, to))
    return sorted((one for one in table if one[0] == api_key and one[1] in between), reverse=at > to)


def _sides(boundary: tuple[int, int], upwards: bool) -> tuple[int, int]:
    """The versions before and behind a boundary."""
    _, last = boundary
    return (last, last + 1) if upwards else (last + 1, last)
