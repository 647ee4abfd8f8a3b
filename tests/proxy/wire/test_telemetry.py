"""Tests of payloads of PushTelemetry, built here and pushed by other clients."""

import doctest
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from proxy.wire import telemetry
from proxy.wire.budget import Budget
from proxy.wire.errors import Malformed, OverBudget
from proxy.wire.records import Compression, compress
from proxy.wire.records.kinds import CODECS
from tests.brokers.jars import class_path, java
from tests.brokers.kafka import JVM
from tests.proxy.wire.push_receiver import push_receiver
from tests.tables import each_row

ROOT = Path(__file__).parents[3]
TYPES = range(5)


def attribute(key: str, **value: Any) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(**value))


def payload() -> otlp.MetricsData:
    """Returns one metric of each shape that clients push."""
    counted = otlp.NumberDataPoint(
        start_time_unix_nano=1, time_unix_nano=2**63, as_int=0, attributes=[attribute("topic", string_value="t")]
    )
    measured = otlp.NumberDataPoint(time_unix_nano=7, as_double=1.5)
    spread = otlp.HistogramDataPoint(count=2, sum=3.5, bucket_counts=[1, 1], explicit_bounds=[2.0], min=0.0)
    unknown = otlp.AggregationTemporality.ValueType(99)
    metrics = [
        otlp.Metric(
            name="org.apache.kafka.producer.records.total",
            unit="1",
            sum=otlp.Sum(
                data_points=[counted], is_monotonic=True, aggregation_temporality=otlp.AGGREGATION_TEMPORALITY_DELTA
            ),
        ),
        otlp.Metric(name="org.apache.kafka.producer.rate", gauge=otlp.Gauge(data_points=[measured])),
        otlp.Metric(name="spread", histogram=otlp.Histogram(data_points=[spread], aggregation_temporality=unknown)),
    ]
    nested = [
        attribute("empty"),
        attribute("yes", bool_value=True),
        attribute("list", array_value=ArrayValue(values=[AnyValue(int_value=1), AnyValue(double_value=2.5)])),
        attribute("map", kvlist_value=KeyValueList(values=[attribute("raw", bytes_value=b"\xff")])),
    ]
    scoped = otlp.ScopeMetrics(scope=InstrumentationScope(name="client"), metrics=metrics)
    return otlp.MetricsData(
        resource_metrics=[otlp.ResourceMetrics(resource=Resource(attributes=nested), scope_metrics=[scoped])]
    )


PLAIN = {
    "resource_metrics": [
        {
            "resource": {"attributes": {"empty": None, "yes": True, "list": [1, 2.5], "map": {"raw": b"\xff"}}},
            "scope_metrics": [
                {
                    "scope": {"name": "client"},
                    "metrics": [
                        {
                            "name": "org.apache.kafka.producer.records.total",
                            "unit": "1",
                            "sum": {
                                "data_points": [
                                    {
                                        "start_time_unix_nano": 1,
                                        "time_unix_nano": 2**63,
                                        "as_int": 0,
                                        "attributes": {"topic": "t"},
                                    }
                                ],
                                "aggregation_temporality": "AGGREGATION_TEMPORALITY_DELTA",
                                "is_monotonic": True,
                            },
                        },
                        {
                            "name": "org.apache.kafka.producer.rate",
                            "gauge": {"data_points": [{"time_unix_nano": 7, "as_double": 1.5}]},
                        },
                        {
                            "name": "spread",
                            "histogram": {
                                "data_points": [
                                    {
                                        "count": 2,
                                        "sum": 3.5,
                                        "bucket_counts": [1, 1],
                                        "explicit_bounds": [2.0],
                                        "min": 0.0,
                                    }
                                ],
                                "aggregation_temporality": 99,
                            },
                        },
                    ],
                }
            ],
        }
    ]
}


def push(compression_type: int, data: bytes) -> dict[str, Any]:
    return {"compression_type": compression_type, "metrics": data}


@each_row("compression_type", TYPES)
def test_metrics_are_plain_values_whatever_compresses_them(compression_type: int) -> None:
    data = compress(CODECS[compression_type], payload().SerializeToString())
    assert telemetry.decode(push(compression_type, data)) == PLAIN


@each_row("compression_type", TYPES)
def test_no_metrics_are_an_empty_dict(compression_type: int) -> None:
    assert telemetry.decode(push(compression_type, b"")) == {}


@each_row("compression_type", [-128, -1, 5, 7, 99])
def test_an_unknown_codec_is_malformed(compression_type: int) -> None:
    assert telemetry.codec_of(compression_type) is Compression.UNKNOWN
    with pytest.raises(Malformed, match=r"^PushTelemetry: an unknown codec"):
        telemetry.decode(push(compression_type, b"?"))


@each_row("compression_type", TYPES)
def test_more_metrics_than_the_limit_are_over_budget(compression_type: int) -> None:
    plain = payload().SerializeToString()
    data = compress(CODECS[compression_type], plain)
    assert telemetry.decode(push(compression_type, data), limit=len(plain)) == PLAIN
    with pytest.raises(OverBudget):
        telemetry.decode(push(compression_type, data), limit=len(plain) - 1)


def test_a_small_bomb_of_many_messages_is_over_budget() -> None:
    bomb = compress(Compression.GZIP, b"\x0a\0" * (telemetry.LIMIT // 2 + 1))
    with pytest.raises(OverBudget, match=f"PushTelemetry: unfolding makes more than {8 << 20} bytes"):
        telemetry.decode(push(1, bomb))


def test_metrics_are_charged_before_they_are_made() -> None:
    data = compress(Compression.GZIP, b"\x0a\0" * 10_000)
    with pytest.raises(OverBudget, match="PushTelemetry: decoding makes more than"):
        telemetry.decode(push(1, data), budget=Budget(20_000 * telemetry.MAX_PER_BYTE - 1))
    assert len(telemetry.decode(push(1, data), budget=Budget())["resource_metrics"]) == 10_000


def test_metrics_take_no_more_than_is_charged_for_them() -> None:
    data = b"\x0a\0" * 20_000
    telemetry.decode(push(0, data[:2]))
    tracemalloc.start()
    try:
        telemetry.decode(push(0, data))
        assert tracemalloc.get_traced_memory()[1] <= telemetry.MAX_PER_BYTE * len(data)
    finally:
        tracemalloc.stop()


def test_bytes_that_are_no_metrics_are_malformed() -> None:
    with pytest.raises(Malformed, match=r"^PushTelemetry: no OTLP metrics: "):
        telemetry.decode(push(0, payload().SerializeToString()[:-1]))


@given(st.sampled_from(TYPES), st.binary(max_size=60))
def test_any_bytes_are_metrics_or_malformed(compression_type: int, data: bytes) -> None:
    with suppress(Malformed, OverBudget):
        assert isinstance(telemetry.decode(push(compression_type, data)), dict)


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry._otlp.cache_clear()
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    with pytest.raises(ModuleNotFoundError, match="pip install opentelemetry-proto"):
        telemetry.decode(push(0, b""))
    telemetry._otlp.cache_clear()


def test_neither_the_wire_nor_this_module_imports_the_package() -> None:
    code = (
        "import sys, proxy.wire; assert 'proxy.wire.telemetry' not in sys.modules; import proxy.wire.telemetry; "
        "print([name for name in sys.modules if name.partition('.')[0] in ('opentelemetry', 'google')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.strip() == "[]"


def test_the_example_of_the_module_runs() -> None:
    result = doctest.testmod(telemetry)
    assert (result.attempted, result.failed) == (2, 0)


def metric_names(metrics: dict[str, Any]) -> set[str]:
    resources = metrics["resource_metrics"]
    return {metric["name"] for one in resources for scope in one["scope_metrics"] for metric in scope["metrics"]}


@pytest.mark.real
@pytest.mark.parametrize("compression_type", TYPES)
def test_telemetry_pushed_by_librdkafka_is_read(compression_type: int) -> None:
    with push_receiver(compression_type) as receiver:
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{receiver.port}", "log_level": 0})
        pushed = receiver.pushes.get(timeout=60)
        del producer
    assert pushed["compression_type"] == compression_type
    assert "org.apache.kafka.producer.connection.creation.total" in metric_names(telemetry.decode(pushed))


@pytest.mark.real
@pytest.mark.parametrize("compression_type", TYPES)
def test_telemetry_pushed_by_the_java_client_is_read(compression_type: int) -> None:
    """Java frames snappy, and makes lz4 of blocks."""
    with push_receiver(compression_type) as receiver:
        producer = "org.apache.kafka.tools.ConsoleProducer"
        settings = ["--topic", "t", "--command-property", "enable.idempotence=false"]
        command = [java(), *JVM, "-cp", class_path(), producer, "--bootstrap-server", f"127.0.0.1:{receiver.port}"]
        with subprocess.Popen([*command, *settings], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            pushed = receiver.pushes.get(timeout=60)
            child.kill()
    assert pushed["compression_type"] == compression_type
    assert "org.apache.kafka.producer.connection.creation.total" in metric_names(telemetry.decode(pushed))
