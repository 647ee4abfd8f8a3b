"""A record produced to a topic, and read back: only if somebody asks for it.

One partition is tried: the first that has a leader. The record has a key, for topics that are compacted, and is read
back at the offset that the leader has given it. To consume alone reads the oldest record that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from proxy.mapping.nodes import Node
from proxy.net.brokers.discovery import CLIENT_ID, NotAnswered, OfferedVersions
from proxy.net.doctor.session import Dialler, Session
from proxy.net.doctor.step import Outcome, Step
from proxy.net.sockets.streams import PeerLost
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.wire import records
from proxy.wire.error_codes import kafka_error
from proxy.wire.errors import WireError
from proxy.wire.keys import FETCH, LIST_OFFSETS, METADATA, PRODUCE

# the newest versions that name topics, where later ones have their ids
PRODUCE_BY_NAME, FETCH_BY_NAME = 12, 12
# those of the other requests: none of their later fields is needed
LIST_OFFSETS_ENOUGH, METADATA_ENOUGH = 5, 8
KEY, VALUE = CLIENT_ID.encode(), b"kafka-wiretap check"
# the timestamp that asks ListOffsets for the oldest offset
EARLIEST = -2
# acks: all replicas
ALL_ACKS = -1
WAIT_MS, FETCH_BYTES = 2000, 64 * 1024


class Trial(NamedTuple):
    """What is tried with a topic."""

    topic: str
    produces: bool
    consumes: bool


class _Refused(Exception):
    """A broker has answered with an error; the text names it."""


class _Partition(NamedTuple):
    number: int
    leader: Address


async def try_topic(dialler: Dialler, nodes: Sequence[Node], trial: Trial, tell: Callable[[Step], None]) -> None:
    """Tells a step for each thing that is tried."""
    name = "produce" if trial.produces else "consume"
    at = trial.topic
    try:
        partition = await _partition(dialler, nodes, trial.topic)
        at = f"{trial.topic}-{partition.number}"
        async with dialler.session(partition.leader) as (session, offered):
            offset: int | None = None
            if trial.produces:
                offset = await _produce(session, offered, trial.topic, partition.number)
                tell(Step(name, at, Outcome.OK, f"a record is written at offset {offset}", facts={"offset": offset}))
            if trial.consumes:
                name = "consume"
                tell(await _consume_step(session, offered, trial.topic, partition.number, offset))
    except (PeerLost, WireError, BadSetting) as error:
        tell(Step(name, at, Outcome.WRONG, str(error), "a leader that answers"))
    except _Refused as error:
        tell(Step(name, at, Outcome.WRONG, str(error), "a topic that exists, and a login that may use it"))


async def _partition(dialler: Dialler, nodes: Sequence[Node], topic: str) -> _Partition:
    """The first partition with a leader, by the first node that answers."""
    failure: PeerLost | None = None
    for node in nodes:
        try:
            async with dialler.session(Address(node.host, node.port)) as (session, offered):
                values = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
                answer = await session.ask_newest(offered, METADATA, METADATA_ENOUGH, values)
        except PeerLost as error:
            failure = error
            continue
        (found,) = answer["topics"]
        _check(found["error_code"], f"Metadata of {topic}")
        addresses = {each["node_id"]: Address(each["host"], each["port"]) for each in answer["brokers"]}
        for part in sorted(found["partitions"], key=lambda part: int(part["partition_index"])):
            if part["leader_id"] in addresses:
                return _Partition(part["partition_index"], addresses[part["leader_id"]])
        raise _Refused(f"no partition of {topic} has a leader")
    raise failure or NotAnswered("there is no node")


async def _produce(session: Session, offered: OfferedVersions, topic: str, number: int) -> int:
    """Writes a record; returns its offset."""
    batch = records.write_batch([records.Record(0, key=KEY, value=VALUE)])
    data = [{"name": topic, "partition_data": [{"index": number, "records": batch}]}]
    values = {"acks": ALL_ACKS, "timeout_ms": WAIT_MS, "topic_data": data}
    answer = await session.ask_newest(offered, PRODUCE, PRODUCE_BY_NAME, values)
    part = answer["responses"][0]["partition_responses"][0]
    _check(part["error_code"], "Produce")
    return int(part["base_offset"])


async def _consume_step(
    session: Session, offered: OfferedVersions, topic: str, number: int, offset: int | None
) -> Step:
    """Reads the record at `offset`; None: the oldest one that is left."""
    at = f"{topic}-{number}"
    own = offset is not None
    if offset is None:
        offset = await _oldest(session, offered, topic, number)
    found = await _fetch(session, offered, topic, number, offset)
    if found is None and not own:
        return Step("consume", at, Outcome.NOTE, "no record is there to be read", facts={"offset": offset})
    if found is None or (own and found.value != VALUE):
        said = f"offset {offset} does not hold the record that was written there"
        return Step("consume", at, Outcome.WRONG, said, "a leader that keeps what it has acknowledged")
    said = f"the record at offset {found.offset} is read"
    return Step("consume", at, Outcome.OK, said, facts={"offset": found.offset})


async def _oldest(session: Session, offered: OfferedVersions, topic: str, number: int) -> int:
    asked = [{"name": topic, "partitions": [{"partition_index": number, "timestamp": EARLIEST}]}]
    answer = await session.ask_newest(offered, LIST_OFFSETS, LIST_OFFSETS_ENOUGH, {"replica_id": -1, "topics": asked})
    part = answer["topics"][0]["partitions"][0]
    _check(part["error_code"], "ListOffsets")
    return int(part["offset"])


async def _fetch(
    session: Session, offered: OfferedVersions, topic: str, number: int, offset: int
) -> records.Record | None:
    """The first record from `offset` on; None: there is none."""
    partition = {"partition": number, "fetch_offset": offset, "partition_max_bytes": FETCH_BYTES}
    values: dict[str, Any] = {
        "max_wait_ms": WAIT_MS,
        "min_bytes": 1,
        "max_bytes": FETCH_BYTES,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    answer = await session.ask_newest(offered, FETCH, FETCH_BY_NAME, values)
    _check(answer.get("error_code", 0), "Fetch")
    part = answer["responses"][0]["partitions"][0]
    _check(part["error_code"], "Fetch")
    read = (each for each in records.read(part["records"] or b"") if each.offset >= offset and each.control is None)
    return next(read, None)


def _check(code: int, what: str) -> None:
    if code:
        raise _Refused(f"{what} is answered with the error {kafka_error(code).name}")
