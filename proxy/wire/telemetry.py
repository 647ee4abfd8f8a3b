"""Metrics that clients push: the payload of a PushTelemetry request, as plain values (KIP-714).

The payload is OTLP's `MetricsData`, compressed like records. Reading it takes the package `opentelemetry-proto` (extra
`telemetry`) and, for some codecs, theirs; they are imported when a payload is read, and nothing in `wire` imports this
module.

    >>> from proxy.wire import telemetry
    >>> telemetry.decode({"compression_type": 0, "metrics": b""})
    {}
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from proxy.wire.budget import FREE, Budget, of_a_batch
from proxy.wire.errors import Malformed, naming
from proxy.wire.records.compression import joined, unfold
from proxy.wire.records.kinds import CODECS, Compression

Values = dict[str, Any]

# Eight times the brokers' default for compressed bytes (`telemetry.max.bytes`). Lower than the limit of records,
# because a message may take 2 bytes here and seventy times as much in memory.
LIMIT = 8 << 20
# The most memory that a byte of the payload may take: in protobuf's message, and in the dict made from it.
MAX_PER_BYTE = 80


def decode(push: Mapping[str, Any], *, limit: int = LIMIT, budget: Budget | None = None) -> Values:
    """The metrics in a decoded PushTelemetry request, unfolded to at most `limit` bytes.

    Returns a dict with OTLP's own names: {"resource_metrics": [{"resource": {"attributes": ...}, "scope_metrics":
    [{"metrics": [{"name": ..., "sum": {"data_points": [...]}}]}]}]}. Attributes are a dict by key, enums their names,
    times nanoseconds since 1970; absent fields are left out.

    `budget`: replaces `limit`; it must have room for the largest values that the unfolded bytes can hold.

    Errors: Malformed for damaged metrics or an unknown codec; OverBudget; ModuleNotFoundError, which names the missing
    package.
    """
    codec, data = codec_of(push["compression_type"]), push["metrics"]
    metrics, broken = _otlp()
    unfolded, values = (of_a_batch(limit), FREE) if budget is None else (budget.unfolded, budget.values)
    with naming("PushTelemetry"):
        plain = joined(unfold(codec, data, unfolded)) if data else b""
        values.take(MAX_PER_BYTE * len(plain))
        try:
            return _plain(metrics.FromString(plain))
        except broken as error:
            raise Malformed(f"no OTLP metrics: {error}") from None


def codec_of(compression_type: int) -> Compression:
    """The codec of that number; UNKNOWN for one that Kafka doesn't have."""
    return CODECS[compression_type] if 0 <= compression_type < len(CODECS) else Compression.UNKNOWN


@cache
def _otlp() -> tuple[Any, type[Exception]]:
    """OTLP's class of all metrics, and protobuf's decode error."""
    try:
        metrics = import_module("opentelemetry.proto.metrics.v1.metrics_pb2")
        message = import_module("google.protobuf.message")
    except ModuleNotFoundError as error:
        reason = "reading telemetry needs opentelemetry-proto: pip install opentelemetry-proto"
        raise ModuleNotFoundError(reason, name=error.name) from error
    return metrics.MetricsData, message.DecodeError


def _plain(message: Any) -> Values:
    """A protobuf message as a dict of the fields that are set."""
    return {field.name: _field(field, value) for field, value in message.ListFields()}


def _field(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.name == "KeyValue":
        return _attributes(value)
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return names[value].name if value in names else value
    is_repeated = hasattr(value, "extend")
    return [_value(field, one) for one in value] if is_repeated else _value(field, value)


def _value(field: Any, value: Any) -> Any:
    return value if field.message_type is None else _plain(value)


def _attributes(pairs: Iterable[Any]) -> Values:
    return {pair.key: _any(pair.value) for pair in pairs}


def _any(value: Any) -> Any:
    """The Python value of an OTLP `AnyValue`."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_any(one) for one in inner.values]
    return _attributes(inner.values) if kind == "kvlist_value" else inner
