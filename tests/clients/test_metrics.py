"""Tests of the metrics of errors and sizes against the taps' files, with real clients and brokers."""

import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.metrics.table import SIZE_BOUNDS
from proxy.wire import apis
from proxy.wire.error_codes import kafka_error
from proxy.wire.error_reader import error_codes
from tests.brokers.kafka import PASSWORD, USER, KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.checks import is_own_question
from tests.clients.harness import LISTEN_HOST, Proxied, proxied
from tests.clients.streams import Response
from tests.clients.workloads import confluent, failures

pytestmark = pytest.mark.real

WITH_METRICS = ["--metrics", f"{LISTEN_HOST}:0"]
FAILED_LOGIN = ("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED")
REFUSED_TOKEN = ("SaslHandshake", "SASL_AUTHENTICATION_FAILED")
# the newest release whose brokers accept tokens without heads
OLDER = "3.9.2"


def scraped(proxy: Proxied, name: str) -> dict[tuple[str, ...], float]:
    """Returns labels' values in the order of their names, without the cluster -> value."""
    (address,) = [line.rpartition(" ")[2] for line in proxy.log.splitlines() if line.startswith("metrics on ")]
    with urllib.request.urlopen(address, timeout=PATIENCE) as page:
        families = list(text_string_to_metric_families(page.read().decode()))
    samples = [sample for family in families for sample in family.samples if sample.name == f"kafka_wiretap_{name}"]
    return {tuple(of for label, of in sorted(one.labels.items()) if label != "cluster"): one.value for one in samples}


def answered(proxy: Proxied) -> list[Response]:
    """Returns the brokers' responses to clients."""
    _, far = proxy.conversations()
    return [response for talk in far if not is_own_question(talk) for response in talk.responses]


def errors_that_passed(proxy: Proxied) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for response in answered(proxy):
        codes = error_codes(response.frame, response.api_key, response.api_version)
        assert isinstance(codes, list)
        found.update((apis.api_name(response.api_key) or "", kafka_error(code).name) for code in codes)
    return found


def sizes_that_passed(proxy: Proxied) -> Counter[tuple[str, ...]]:
    """Returns a histogram's buckets: api, bound, version -> number of responses of at most that size."""
    found: Counter[tuple[str, ...]] = Counter()
    for response in answered(proxy):
        api, version = apis.api_name(response.api_key) or "", str(response.api_version)
        for bound in (*SIZE_BOUNDS, float("inf")):
            found[api, str(bound).replace("inf", "+Inf"), version] += len(response.frame) <= bound
    return found


def test_sizes_and_errors_are_those_of_the_responses_that_passed(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path, options=WITH_METRICS) as proxy:
        confluent.administers(proxy.bootstrap)
        failures.asks_for_a_topic_that_is_not_there(proxy.bootstrap)
        failures.loses_its_topic(proxy.bootstrap, lambda: errors_that_passed(proxy)["Fetch", "UNKNOWN_TOPIC_ID"])
        wait_for(lambda: scraped(proxy, "errors_total") == errors_that_passed(proxy), "the errors that passed")
        wait_for(
            lambda: scraped(proxy, "response_size_bytes_bucket") == sizes_that_passed(proxy), "the sizes that passed"
        )
        for api in ("Metadata", "Produce", "Fetch"):
            assert scraped(proxy, "errors_total")[api, "UNKNOWN_TOPIC_OR_PARTITION"]
        for of_nodes, of_apis in (("node_exchanges_total", "exchanges_total"), ("node_errors_total", "errors_total")):
            assert sum(scraped(proxy, of_nodes).values()) == sum(scraped(proxy, of_apis).values())
        assert set(scraped(proxy, "node_up").values()) == {1}
        assert len(scraped(proxy, "node_up").keys() - {("bootstrap",)}) >= 1
        assert not scraped(proxy, "errors_unread_total")


def test_nine_failed_logins_are_nine_errors_by_name(kafka_three: KafkaCluster, tmp_path: Path) -> None:
    with proxied(kafka_three, tmp_path, login=True, options=WITH_METRICS) as proxy:
        failures.fails_to_log_in(proxy.bootstrap, USER, times=9)
        wait_for(lambda: scraped(proxy, "errors_total").get(FAILED_LOGIN, 0) >= 9, "nine errors")
        assert scraped(proxy, "errors_total") == errors_that_passed(proxy) == {FAILED_LOGIN: 9}
        assert scraped(proxy, "logins_total") == {("PLAIN", "refused"): 9}


@pytest.mark.long
def test_a_refused_bare_token_is_an_error_and_an_accepted_one_is_not(tmp_path: Path) -> None:
    """Clients of 0.10 log in like this."""
    with (
        KafkaCluster(1, folder=tmp_path / "kafka", release=OLDER) as cluster,
        Proxied(cluster, tmp_path, login=True, record=False, options=WITH_METRICS) as proxy,
    ):
        assert failures.sends_a_bare_token(proxy.bootstrap, USER, PASSWORD) == b""
        for _ in range(2):
            assert failures.sends_a_bare_token(proxy.bootstrap, USER, "wrong") is None
        wait_for(lambda: scraped(proxy, "errors_total") == {REFUSED_TOKEN: 2}, "both to be counted")
        # the accepted one has asked for nothing more
        assert scraped(proxy, "logins_total") == {("PLAIN", "refused"): 2, ("PLAIN", "unfinished"): 1}
        assert not scraped(proxy, "errors_unread_total")
