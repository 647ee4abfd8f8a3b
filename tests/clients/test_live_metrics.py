"""Tests of lag, and of counts by topic and client, against Kafka's own tool at the same moment, without traffic."""

from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.harness import proxied
from tests.clients.test_metrics import WITH_METRICS, scraped
from tests.clients.workloads import confluent, fresh, values
from tests.clients.workloads.group_members import copies_exactly_once, described, have_read, member

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(900)]
PARTITIONS = 2


@pytest.mark.parametrize(("record", "workers"), [(False, 1), (False, 2), (True, 1)])
def test_lag_is_what_kafkas_tool_tells(
    kafka_one: KafkaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: bool, workers: int
) -> None:
    for key in ("TOPICS", "CLIENTS", "GROUPS"):
        monkeypatch.setenv(f"KAFKA_WIRETAP_LIVE__{key}", "1000")
    names = {name: fresh(name) for name in ("classic", "newer", "behind", "exact")}
    options = [*WITH_METRICS, "--workers", str(workers)]
    with proxied(kafka_one, tmp_path, options=options, record=record) as proxy, ExitStack() as stack:
        wait_for(lambda: scraped(proxy, "live_runs").get(()), "the stream")
        to = proxy.bootstrap
        topic = confluent.create_topic(to, "groups", partitions=PARTITIONS)
        confluent.produce(to, topic, values("first", 40), partitions=PARTITIONS)
        groups = (
            (member(to, names["classic"], topic), member(to, names["classic"], topic)),
            (member(to, names["newer"], topic, "consumer"),),
            (member(to, names["behind"], topic, most=6),),
        )
        readers = [[stack.enter_context(one) for one in group] for group in groups]
        copies_exactly_once(to, names["exact"], topic)
        for group in readers:
            wait_for(partial(have_read, group, 41), "all")
        told = [row for row in described(kafka_one, "--offsets") if row["GROUP"] in names.values()]
        assert {row["GROUP"] for row in told} == {*names.values()}
        expected = {
            (row["GROUP"], row["PARTITION"], row["TOPIC"]): tuple(
                float(row[name]) for name in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
            )
            for row in told
            if row["CURRENT-OFFSET"] != "-"
        }

        def seen() -> dict[tuple[str, ...], tuple[float | None, ...]]:
            committed = scraped(proxy, "group_committed_offset")
            ends, lags = scraped(proxy, "partition_log_end_offset"), scraped(proxy, "group_lag")
            return {
                place: (offset, ends.get(place[1:]), lags.get(place))
                for place, offset in committed.items()
                if place[0] in names.values()
            }

        with suppress(TimeoutError):
            wait_for(lambda: seen() == expected, "the lag")
        assert seen() == expected
        # more if a broker has refused some at first
        assert scraped(proxy, "topic_produced_records_total")[topic,] >= 41
        assert scraped(proxy, "topic_fetched_records_total")[topic,] >= 3 * 41
        assert scraped(proxy, "live_missed_total") == {(): 0}
        assert {key[0] for key in scraped(proxy, "software_requests_total")} >= {"confluent-kafka-python"}
