"""Reads the metrics page as Prometheus does."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from proxy.metrics.collector import ClusterNumbers, ListenerRoom, NodeListener
from proxy.metrics.traffic import Traffic

PREFIX = "kafka_wiretap_"


def one(traffic: Traffic, nodes: Sequence[NodeListener] = (), name: str = "main") -> list[ClusterNumbers]:
    """The numbers of a proxy with one cluster."""
    return [ClusterNumbers(name, traffic, lambda: nodes, lambda: ListenerRoom(len(nodes), 512))]


def families(registry: CollectorRegistry):
    """Returns a scrape's families, parsed from its text, without those of the process."""
    text = generate_latest(registry).decode()
    return [family for family in text_string_to_metric_families(text) if family.name.startswith(PREFIX)]


def samples(registry: CollectorRegistry) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Returns (name without its prefix, labels) -> value."""
    return {
        (sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())): sample.value
        for family in families(registry)
        for sample in family.samples
    }


class Scrape:
    """The samples of one cluster, without its label, and those without a cluster."""

    def __init__(self, registry: CollectorRegistry, cluster: str = "main") -> None:
        self.samples = {
            (name, labels - {("cluster", cluster)}): value
            for (name, labels), value in samples(registry).items()
            if ("cluster", cluster) in labels or not any(label == "cluster" for label, _ in labels)
        }

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.samples.get((name, frozenset(labels.items())))

    def named(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        return {labels: value for (found, labels), value in self.samples.items() if found == name}
