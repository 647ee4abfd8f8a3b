"""An exchange as a span, with the attributes of OpenTelemetry's conventions for messaging and for Kafka.

A span is what the client waited for: from the arrival of the request's last byte at the proxy to that of the
response's. If the exchange's records carry one trace context, that is the span's parent; several are its links. The
span's ids are made of the exchange's id, so that the same exchange is the same span, however often it is exported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from proxy.terminal import harmless
from proxy.version import program_version
from proxy.wire import keys
from proxy.wire.error_codes import kafka_error
from proxy.wire.normal_errors import is_normal
from recorder.capture import frames as c
from recorder.capture.outcome import Outcome
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair, exchange_id
from recorder.reading.heads import of_exchange
from recorder.tracing.messages import Messages, TraceContext, messages

# letters of an attribute: a peer may choose a client id of 32 kB
MAX_TEXT = 1000
# links of a span; the contexts of a batch may be many
MAX_LINKS = 128
# api -> the operation's name in Kafka's clients, and its type in the conventions
OPERATIONS = {
    keys.PRODUCE: ("send", "send"),
    keys.FETCH: ("poll", "receive"),
    keys.SHARE_FETCH: ("poll", "receive"),
    keys.OFFSET_COMMIT: ("commit", "settle"),
    keys.TXN_OFFSET_COMMIT: ("commit", "settle"),
    keys.SHARE_ACKNOWLEDGE: ("acknowledge", "settle"),
}
# error.type of an exchange that has no answer
NO_RESPONSE = "no_response"
_PROPAGATOR = TraceContextTextMapPropagator()
Attribute = str | int


class Spans:
    """Makes spans. `told`: names of topics' ids; it may grow."""

    def __init__(self, told: Told) -> None:
        self._told, self._ids, self._made = told, _Ids(), _Made()
        limits = SpanLimits(max_span_attribute_length=MAX_TEXT, max_links=MAX_LINKS)
        provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource(), id_generator=self._ids, span_limits=limits, shutdown_on_exit=False
        )
        provider.add_span_processor(self._made)
        self._tracer = provider.get_tracer("kafka-wiretap", program_version())

    def span(self, pair: Pair) -> ReadableSpan:
        """The span of an exchange, whose rows should hold their bytes."""
        said = messages(pair, self._told)
        name, attributes = _described(pair, said)
        contexts = [*_valid(said.contexts)]
        parent = set_span_in_context(NonRecordingSpan(contexts[0]), Context()) if len(contexts) == 1 else Context()
        self._ids.exchange = exchange_id(pair.head)
        began, ended = _times(pair)
        span = self._tracer.start_span(
            name,
            parent,
            SpanKind.CLIENT,
            {key: harmless(value) if isinstance(value, str) else value for key, value in attributes.items()},
            [Link(context) for context in contexts] if len(contexts) > 1 else (),
            began,
        )
        if "error.type" in attributes:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)
        return self._made.taken()


def resource() -> Resource:
    """What sends spans and metrics; `OTEL_RESOURCE_ATTRIBUTES` may say more of it."""
    name = os.environ.get("OTEL_SERVICE_NAME", "kafka-wiretap")
    return Resource.create({SERVICE_NAME: name, SERVICE_VERSION: program_version()})


class _Ids(IdGenerator):
    """Ids made of an exchange's."""

    exchange = ""

    def generate_trace_id(self) -> int:
        return int.from_bytes(self._digest()[:16], "big")

    def generate_span_id(self) -> int:
        return int.from_bytes(self._digest()[16:24], "big")

    def _digest(self) -> bytes:
        return hashlib.sha256(self.exchange.encode("utf-8", "replace")).digest()


class _Made(SpanProcessor):
    """Gets a span once it has ended."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def taken(self) -> ReadableSpan:
        return self._spans.pop()


def _described(pair: Pair, said: Messages) -> tuple[str, dict[str, Attribute]]:
    """A span's name, and its attributes."""
    head = pair.head
    api = head[c.API] or f"api {head[c.API_KEY]}"
    operation, kind = OPERATIONS.get(head[c.API_KEY], (api, None)) if head[c.DIALECT] == c.KAFKA else (api, None)
    server, client = _address(head[c.LISTENER]), _address(head[c.CLIENT])
    found: dict[str, Attribute | None] = {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.client.id": head[c.CLIENT_ID],
        "messaging.destination.name": said.topic,
        "messaging.destination.partition.id": None if said.partition is None else str(said.partition),
        "messaging.consumer.group.name": said.group,
        "messaging.kafka.offset": said.offset,
        "messaging.batch.message_count": said.records,
        "error.type": _error(pair),
        "server.address": server[0],
        "server.port": server[1],
        "client.address": client[0],
        "client.port": client[1],
        "kafka_wiretap.exchange": exchange_id(head),
        "kafka_wiretap.api": api,
        "kafka_wiretap.api_version": head[c.API_VERSION],
        "kafka_wiretap.node": head[c.NODE],
        "kafka_wiretap.cluster": head[c.CLUSTER],
        "kafka_wiretap.outcome": pair.outcome.value,
        "kafka_wiretap.request.size": pair.request[c.SIZE] if pair.request else None,
        "kafka_wiretap.response.size": pair.response[c.SIZE] if pair.response else None,
    }
    name = operation if said.topic is None or kind is None else f"{operation} {said.topic}"
    return harmless(name[:MAX_TEXT]), {key: value for key, value in found.items() if value is not None}


def _error(pair: Pair) -> str | None:
    """The first error of an exchange that is no normal step of the protocol."""
    if pair.outcome is Outcome.UNANSWERED:
        return NO_RESPONSE
    codes = pair.reading.codes if pair.reading is not None else ()
    key = pair.head[c.API_KEY]
    return next((kafka_error(code).name for code in codes if code and not is_normal(key, code)), None)


def _address(value: str | None) -> tuple[str | None, int | None]:
    """Host and port of an address; IPv6 hosts without their brackets."""
    host, _, port = (value or "").rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdecimal() else (value or None, None)


def _times(pair: Pair) -> tuple[int, int]:
    """When an exchange began and ended, in ns since 1970. Without an answer it ends as it begins."""
    began = of_exchange(pair)["at"]
    return began, max(began, pair.response[c.AT_NS]) if pair.response else began


def _valid(contexts: Sequence[TraceContext]) -> Iterator[SpanContext]:
    """The contexts that W3C's rules allow."""
    for each in contexts:
        found = get_current_span(_PROPAGATOR.extract(each._asdict(), Context())).get_span_context()
        if found.is_valid:
            yield found
