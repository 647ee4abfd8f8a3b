"""Every step of the workload gets through, straight against the mock cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from recorder.demo import workload
from recorder.demo.cluster import start


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    owner, servers = start()
    yield servers
    del owner


@pytest.mark.real
def test_records_of_every_codec_and_acks_go_there_and_back(servers: str) -> None:
    assert workload.produce_orders(servers) == "3015 records, 5 codecs, acks 0, 1, all"
    assert workload.consume_orders(servers) == "2010 records, 2 members"
    assert "Offset out of range" in workload.go_wrong(servers)


@pytest.mark.real
def test_the_other_client_gets_through_too(servers: str) -> None:
    assert workload.clicks(servers).startswith("600 records")


def test_records_that_must_arrive_are_known_by_their_keys() -> None:
    assert workload._sure(b"sure-1")
    assert not workload._sure(b"unsure-1")
    assert not workload._sure(None)
