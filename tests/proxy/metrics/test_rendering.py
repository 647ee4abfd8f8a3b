"""Tests that a kept rendering says what prometheus-client would say anew, whatever has changed since."""

from __future__ import annotations

import random

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from proxy.metrics.rendering import END, renderer
from tests.hostile_text import NAME, TEXT

VALUES = [0, 1, 7.5, 1e-9, 1e300, float("inf"), float("nan"), -1, 12345678.0]
NAMES = ["", "a", 'b"', "c\\", "d\n", NAME, TEXT, "ünï", "e 1.0", "f 1.0\n"]


class Families(Collector):
    def __init__(self, *families: Family) -> None:
        self.families = families

    def collect(self):
        return self.families


def some(chance: random.Random) -> list[Family]:
    names = chance.sample(NAMES, chance.randrange(4))
    counter = CounterMetricFamily("counted_total", "Counts\nlines.", labels=["topic", "a"])
    gauge = GaugeMetricFamily("measured", "Back\\slashes.", labels=["topic"])
    histogram = HistogramMetricFamily("spread", "Of times.", labels=["api"])
    for name in names:
        counter.add_metric([name, "x"], abs(chance.choice(VALUES[:5])))
        gauge.add_metric([name], chance.choice(VALUES))
        count = chance.randrange(9)
        exemplar = Exemplar({"exchange": name}, 0.5, 12.5)
        buckets = [("0.1", count, exemplar) if chance.random() < 0.5 else ("0.1", count), ("+Inf", count + 1)]
        histogram.add_metric([name], buckets, chance.random())
    return [counter, gauge, histogram]


@pytest.mark.parametrize(("is_open", "encode"), [(False, generate_latest), (True, openmetrics.generate_latest)])
def test_a_kept_rendering_is_that_of_the_library(is_open, encode) -> None:
    chance, made = random.Random(7), renderer(is_open=is_open)
    for _ in range(300):
        families = some(chance)
        assert made.text(families) + END.encode() * is_open == encode(Families(*families))
