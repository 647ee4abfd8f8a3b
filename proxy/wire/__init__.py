"""Kafka's protocol as values: bytes <-> dicts, whole frames and single fields. No sockets, no clock, no event loop.

Words of this room:

    frame       a head and a body: the bytes behind the 4-byte length (`framing` knows the length)
    head        api key, api version, correlation id, client id; a response's head has only the correlation id
    message     a request or response of an api in all its versions, defined by a `.kafka` file (`messages/README.md`)
    codec       the functions of one message in one version; each is compiled on its first use
    projection  the chosen fields alone, each with value and byte span; all others are stepped over
    walk        finds the offset where one field begins, in a message that arrives in pieces
    opaque      a frame that the catalog lacks: `UnknownMessage`, a value and no error

What others use:

    >>> from proxy import wire
    >>> frame = wire.encode_request(3, 12, correlation_id=7, client_id="me", values={"topics": None})
    >>> wire.request_head(frame).client_id
    'me'
    >>> head, values = wire.decode_request(frame)
    >>> wire.codec("response", 3, 12).project(("brokers.host", "brokers.port"))
    <function project at ...>
    >>> wire.marked("response", 3, 12, "node_id")[:2]
    ('brokers.node_id', 'controller_id')
    >>> wire.kafka_error(6)
    KafkaError(code=6, name='NOT_LEADER_OR_FOLLOWER', retriable=True)

Bytes that can't be read raise a `WireError` and nothing else: `Truncated` or `Malformed`, with api, version and offset.
Bytes that would exceed a `Budget` raise `OverBudget`, a `WireError` too. A message or a field that does not exist is
the caller's fault and raises a plain ValueError. Buffers are bytes, bytearray or memoryview.
"""

from proxy.wire.apis import api_key, api_keys, api_name, is_flexible, known, versions
from proxy.wire.budget import Budget
from proxy.wire.catalog import (
    Codec,
    UnknownMessage,
    Walk,
    codec,
    codec_of_response,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    marked,
    may_hold_secrets,
    secrets,
    walk_response,
)
from proxy.wire.error_codes import KafkaError, kafka_error
from proxy.wire.errors import Malformed, OverBudget, Truncated, WireError
from proxy.wire.headers import RequestHead, ResponseHead, request_head, response_head
from proxy.wire.primitives import uuid_text

__all__ = [
    "Budget",
    "Codec",
    "KafkaError",
    "Malformed",
    "OverBudget",
    "RequestHead",
    "ResponseHead",
    "Truncated",
    "UnknownMessage",
    "Walk",
    "WireError",
    "api_key",
    "api_keys",
    "api_name",
    "codec",
    "codec_of_response",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "is_flexible",
    "kafka_error",
    "known",
    "marked",
    "may_hold_secrets",
    "request_head",
    "response_head",
    "secrets",
    "uuid_text",
    "versions",
    "walk_response",
]
