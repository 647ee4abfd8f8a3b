"""The proxy's own question: who are the cluster's nodes? Asked at the start, and when a client wants a node not known.

ApiVersions v0, then Metadata for no topics, on a connection of its own that is neither recorded nor counted. Brokers
before 0.10 close it at the first question: they are asked again, for Metadata alone. Where the brokers ask for a login
the answer never comes; then the proxy learns its nodes from the first client's answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import trio

from proxy.net.bootstrap import Bootstrap
from proxy.net.streams import PeerLost, Stream
from proxy.rewrite import addresses
from proxy.rewrite.nodes import Address, Node
from proxy.wire import catalog
from proxy.wire.errors import WireError
from proxy.wire.framing import LENGTH, framed

METADATA, API_VERSIONS = 3, 18
CLIENT_ID = "kafka-wiretap"
# the answer to a question about no topics: a few bytes a node
LONGEST_ANSWER = 1024 * 1024
ANSWER_SECONDS = 5


class NoAnswer(Exception):
    """The brokers did not tell their nodes; the message says why. `reached`: whether one could be connected to."""

    def __init__(self, reasons: str, reached: bool) -> None:
        super().__init__(reasons)
        self.reached = reached


class NotAnswered(PeerLost):
    """The broker closed the connection at a question."""


class Told(NamedTuple):
    """What a broker says of its cluster. `cluster_id`: None if it doesn't say (before 0.10.1)."""

    nodes: tuple[Node, ...]
    cluster_id: str | None


async def ask_for_nodes(bootstrap: Bootstrap, dial: Callable[[Address], Awaitable[Stream]]) -> Told:
    """The cluster's nodes, from the first bootstrap server that tells them.

    Raises:
        NoAnswer: none did.
    """
    reached = False

    async def ask(address: Address) -> Told:
        nonlocal reached
        stream = await dial(address)
        reached = True
        return await _ask_in_time(stream, address, partial(dial, address))

    try:
        return await bootstrap.first(ask, lambda told: None)
    except PeerLost as lost:
        raise NoAnswer(str(lost), reached) from lost


async def _ask_in_time(stream: Stream, address: Address, dial_again: Callable[[], Awaitable[Stream]]) -> Told:
    """Raises PeerLost: no answer, or none that can be understood."""
    try:
        with trio.fail_after(ANSWER_SECONDS):
            return await _ask(stream, dial_again)
    except WireError as error:
        raise PeerLost(error) from error
    except trio.TooSlowError as error:
        raise PeerLost(f"{address} did not answer in {ANSWER_SECONDS} s") from error


async def _ask(stream: Stream, dial_again: Callable[[], Awaitable[Stream]]) -> Told:
    try:
        try:
            versions = await _exchange(stream, API_VERSIONS, 0, {})
        except NotAnswered:
            stream.close()
            stream = await dial_again()
            return await _told(stream, 0)
        return await _told(stream, _metadata_version(_decoded(versions, API_VERSIONS, 0)[1]))
    finally:
        stream.close()


async def _told(stream: Stream, version: int) -> Told:
    frame = await _exchange(stream, METADATA, version, _question(version))
    return Told(addresses.nodes_in(METADATA, version, frame), addresses.cluster_in(METADATA, version, frame))


def _question(version: int) -> dict[str, Any]:
    """Version 0 can only ask for all topics; later ones ask for none."""
    codec = catalog.codec("request", METADATA, version)
    assert codec is not None
    fields = {field.name for field in codec.message.fields}
    asked: dict[str, Any] = {"topics": [], "allow_auto_topic_creation": False}
    return {name: value for name, value in asked.items() if name in fields}


def _metadata_version(versions: dict[str, Any]) -> int:
    ours = catalog.versions(METADATA)[-1]
    for api in versions["api_keys"]:
        if api["api_key"] == METADATA:
            return min(ours, int(api["max_version"]))
    return 0


def _decoded(frame: bytes, key: int, version: int) -> tuple[Any, dict[str, Any]]:
    decoded = catalog.decode_response(frame, key, version)
    if isinstance(decoded, catalog.UnknownMessage):
        raise WireError(f"version {version} of api {key} is not known")
    return decoded


async def _exchange(stream: Stream, key: int, version: int, values: dict[str, Any]) -> bytes:
    await stream.send([framed(catalog.encode_request(key, version, 0, CLIENT_ID, values))])
    received = b""
    while len(received) < 4 or len(received) < 4 + _size(received):
        chunk = await stream.receive()
        if not chunk:
            raise NotAnswered(f"{stream.peer} closed the connection instead of answering; does it ask for a login?")
        received += chunk
    return received[4:]


def _size(received: bytes) -> int:
    (size,) = LENGTH.unpack_from(received)
    if not 0 <= size <= LONGEST_ANSWER:
        raise PeerLost(f"an answer of {size} bytes is none of Kafka's; is this a TLS port?")
    return int(size)
