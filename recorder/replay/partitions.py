"""What a request or an answer says of its partitions: errors, and partitions that are left out."""

from __future__ import annotations

from collections.abc import Callable

from proxy.wire import places
from proxy.wire.apis import MessageKind
from proxy.wire.places import Partition
from recorder.replay.messages import SharedValues
from recorder.replay.plan import Dropped, Exchange, Reason, Values

Topic = str | bytes
TopicPartition = tuple[str, int]
LARGEST_OFFSET = 2**63 - 1


def in_request(api_key: int, values: Values) -> list[Partition]:
    """The partitions of a request."""
    if type(values) is SharedValues:
        return _remembered("request", api_key, values)
    return places.partitions("request", api_key, values)


def forgotten(api_key: int, values: Values) -> list[Partition]:
    """The partitions that a request takes out of its session."""
    return places.partitions("request", api_key, values, forgotten=True)


def in_answer(api_key: int, values: Values) -> list[Partition]:
    """The partitions of an answer."""
    if type(values) is SharedValues:
        return _remembered("response", api_key, values)
    return places.partitions("response", api_key, values)


def _remembered(kind: MessageKind, api_key: int, values: SharedValues) -> list[Partition]:
    """The partitions of a message that is never changed: found once, and shared as its values are."""
    found = values.partitions
    if found is None:
        found = values.partitions = places.partitions(kind, api_key, values)
    return found


def errors(api_key: int, answer: Values | None, name: Callable[[Topic], str | None]) -> dict[TopicPartition, int]:
    """The error of each partition in an answer, by recorded topic name.

    `name`: the recorded name of the answer's topic.
    """
    found: dict[TopicPartition, int] = {}
    for each in in_answer(api_key, answer) if answer else ():
        topic = name(each.topic)
        if topic is not None:
            found[topic, each.partition] = each.code or 0
    return found


def codes(exchange: Exchange, answer: Values | None) -> set[int]:
    """All error codes in an answer to an exchange other than 0, also those of no partition; none without an answer."""
    return set() if answer is None else {code for _, code in places.errors(exchange.api_key, answer)}


def drop(exchange: Exchange, values: Values, reason: Callable[[Partition], Reason | None]) -> bool:
    """Leaves partitions out of a request, and topics that have none left. False if all that it had are left out."""

    def drops(each: Partition) -> bool:
        found = reason(each)
        if found is not None:
            exchange.dropped.append(Dropped(each.topic, each.partition, found))
        return found is not None

    return places.leave_out("request", exchange.api_key, values, drops)
