"""Tests of the section on partitions."""

from __future__ import annotations

import pytest

from recorder.analysis.summary.bounds import Marks
from recorder.analysis.summary.sections.partitions import Partition, Partitions
from recorder.analysis.summary.whole import Summary
from recorder.report.sections.partitions import partitions


@pytest.mark.parametrize(
    ("skews", "answer"),
    [
        ((1.0, 1.1, 0.9), "Each partition with traffic carries about an even share of its topic."),
        ((1.6, 0.8, 0.8), "orders 0 carries 1.6 \N{MULTIPLICATION SIGN} an even share of its topic."),
        (
            (1.2, 1.2, 0.6),
            "No partition carries over a quarter more than an even share of its topic. "
            "Three quarters of an even share or less: 1 of 3 partitions.",
        ),
        (
            (1.0, None),
            "Each partition with traffic carries about an even share of its topic. No traffic: 1 of 2 partitions.",
        ),
        ((None,), "No traffic: 1 of 1 partition."),
    ],
)
def test_the_sentence_above_the_partitions_speaks_of_every_shade_below_it(
    skews: tuple[float | None, ...], answer: str
) -> None:
    rows = tuple(Partition("orders", at, skew=skew) for at, skew in enumerate(skews))
    (plot,) = partitions(Summary(partitions=Partitions(partitions=Marks(rows)))).plots
    assert plot.answer == answer


def test_partitions_that_are_short_of_replicas_are_counted_above_their_squares() -> None:
    rows = Partition("orders", 0, skew=1.0, replicas=3, in_sync=2), Partition("orders", 1, skew=1.0)
    (plot,) = partitions(Summary(partitions=Partitions(partitions=Marks(rows)))).plots
    assert plot.answer.endswith("Short of replicas: 1 partition.")
