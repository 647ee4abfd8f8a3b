"""Tests of spans of traffic as it passes: a proxy, a broker, a client that is traced, and a collector."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.brokers.kafka import KafkaCluster
from tests.brokers.ports import Reserved
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.harness import proxied
from tests.clients.test_metrics import scraped
from tests.clients.workloads import confluent, values
from tests.recorder.tracing.receiver import attributes, receiver
from tests.recorder.tracing.traffic import PARENT, TRACE, TRACEPARENT

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("record", [False, True])
def test_a_traced_producer_is_the_parent_of_what_the_broker_was_asked(
    kafka_one: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: bool
) -> None:
    with receiver() as got:
        monkeypatch.setenv("KAFKA_WIRETAP_LIVE__OTLP", got.url)
        monkeypatch.setenv("KAFKA_WIRETAP_LIVE__OTLP_EVERY", "1")
        port = Reserved("127.0.0.1")
        with proxied(kafka_one, tmp_path, options=["--metrics", str(port)], record=record) as proxy:
            wait_for(lambda: scraped(proxy, "live_runs").get(()), "the stream")
            topic = confluent.create_topic(proxy.bootstrap, "traced", partitions=1)
            producer = Producer({"bootstrap.servers": proxy.bootstrap})
            for value in values("traced", 5):
                producer.produce(topic, value, headers=[("traceparent", TRACEPARENT)])
            assert producer.flush(PATIENCE) == 0
            assert len(confluent.consume(proxy.bootstrap, topic, 5)) == 5

            def named(name: str) -> list[dict[str, object]]:
                return [attributes(span) | {"": span} for span in got.spans if span.name == f"{name} {topic}"]

            wait_for(
                lambda: sum(int(str(one["messaging.batch.message_count"])) for one in named("poll")) >= 5,
                "the spans of fetches",
                seconds=PATIENCE,
            )
            sent = named("send")
            assert sum(int(str(one["messaging.batch.message_count"])) for one in sent) == 5
            for one in sent:
                span = one[""]
                assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)  # type: ignore[attr-defined]
            assert sent[0]["messaging.kafka.offset"] == 0
            wait_for(lambda: scraped(proxy, "live_spans_total")[("sent",)] >= 2, "the count")
            assert {key[0] for key in scraped(proxy, "live_spans_total")} == {"sent", "refused", "dropped"}

            # once a minute
            wait_for(lambda: got.metrics, "the metrics", seconds=60 + PATIENCE)
            assert {"kafka_wiretap_latency_seconds", "kafka_wiretap_live_spans_total"} <= got.metrics

            got.status = 400
            confluent.produce(proxy.bootstrap, topic, values("refused", 1))
            wait_for(lambda: scraped(proxy, "live_spans_total")[("refused",)] >= 1, "a refusal")
        assert "the collector takes no spans" in proxy.log
        port.release()
