"""Kafka 0.7's dialect. It shares only the length in front of a frame with later versions.

    messages    the log's messages: magic 0 and 1, compressed ones, those that a fetch has cut; offsets are bytes
    requests    PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS
    responses   the responses to FETCH, MULTIFETCH and OFFSETS, each read by its request
    zookeeper   brokers' registrations, clients' watches, the assignment of partitions

A proxy reads `request_head` and `response_head` from bytes that are still arriving (None means too few bytes), and
everything else from whole frames. PRODUCE and MULTIPRODUCE are never answered. Responses to the others come in the
order of their requests, so pairing is a queue of the requests whose `awaits_response` is true:

    >>> from proxy.wire import kafka07
    >>> head = kafka07.request_head(b"\\0\\0\\0\\x19\\0\\1\\0")
    >>> head.length, head.type.name, head.awaits_response
    (25, 'FETCH', True)
    >>> fetch = kafka07.Fetch("clicks", partition=0, offset=0, max_size=300_000)
    >>> kafka07.decode_response(b"\\0\\1", fetch)
    FetchResponse(error_code=1, messages=b'')

Evidence. Unmarked statements were tried on a broker of Kafka 0.7.2, whose answers the tests keep, with that release's
own producer and consumer, and with clients of that time: brod 0.4.3 and samsa 0.3.11 (PyPI), prozess 0.7.0 (npm). The
tests read frames of all of them, and run samsa. Kafka's wiki page "Writing a Driver for Kafka" ("the page") agrees, as
far as it goes. **(s)** marks statements read in a public copy of the broker's source but not tried (`kafka.server`,
`kafka.consumer`, `kafka.producer`; foursquare/kafka).
"""

from proxy.wire.kafka07 import messages, zookeeper
from proxy.wire.kafka07.requests import (
    ANY_PARTITION,
    EARLIEST,
    LATEST,
    SHORTEST_REQUEST,
    Fetch,
    MultiFetch,
    MultiProduce,
    Offsets,
    Produce,
    Request,
    RequestHead,
    RequestType,
    UnknownRequest,
    decode_request,
    encode_request,
    request_head,
)
from proxy.wire.kafka07.responses import (
    SHORTEST_RESPONSE,
    ErrorCode,
    FetchResponse,
    MultiFetchResponse,
    OffsetsResponse,
    Response,
    ResponseHead,
    decode_response,
    decode_response_to,
    encode_response,
    error_codes,
    error_name,
    response_head,
)

__all__ = [
    "ANY_PARTITION",
    "EARLIEST",
    "LATEST",
    "SHORTEST_REQUEST",
    "SHORTEST_RESPONSE",
    "ErrorCode",
    "Fetch",
    "FetchResponse",
    "MultiFetch",
    "MultiFetchResponse",
    "MultiProduce",
    "Offsets",
    "OffsetsResponse",
    "Produce",
    "Request",
    "RequestHead",
    "RequestType",
    "Response",
    "ResponseHead",
    "UnknownRequest",
    "decode_request",
    "decode_response",
    "decode_response_to",
    "encode_request",
    "encode_response",
    "error_codes",
    "error_name",
    "messages",
    "request_head",
    "response_head",
    "zookeeper",
]
