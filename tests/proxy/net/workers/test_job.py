from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import Format, Level, LiveSettings, LogSettings, ProxySettings
from proxy.net.workers.job import Job, read_job
from proxy.schema.addresses import Address
from recorder.capture.session import CaptureSettings
from tests.proxy.net.relays import settings

SETTINGS = ProxySettings(
    (
        settings(
            name="east",
            named={7: Address("127.0.0.1", 19107)},
            remembered={3: 40_000},
            state=Path("nodes"),
            connection_limit=7,
        ),
        settings(name="west", advertise="proxy.example.org"),
    ),
    Address("127.0.0.1", 0),
    3,
    1001,
    LogSettings(Level.DEBUG, Format.JSON),
    connection_limit=100,
    workers=3,
    # without the admin page nobody could show this token
    live=LiveSettings(token_file=Path("token")),
)


def test_a_worker_reads_what_the_parent_has_written():
    job = Job(3, 1, SETTINGS, CaptureSettings(folder=Path("capture")))
    assert read_job(io.BytesIO(job.dumped())) == job


def test_settings_cannot_be_changed_on_the_other_side_either():
    read = read_job(io.BytesIO(Job(1, 0, SETTINGS).dumped())).settings.clusters[0].node_map
    assert read == SETTINGS.clusters[0].node_map
    named: Any = read.named
    with pytest.raises(TypeError):
        named[8] = Address("127.0.0.1", 1)


def test_a_parent_that_has_ended_has_written_nothing():
    with pytest.raises(EOFError):
        read_job(io.BytesIO())


def test_a_job_cut_by_the_parents_end_is_no_job():
    whole = Job(1, 0, SETTINGS).dumped()
    for size in range(len(whole)):
        with pytest.raises(EOFError):
            read_job(io.BytesIO(whole[:size]))


def test_connections_of_different_workers_have_different_numbers():
    first, second = Job(1, 0, SETTINGS), Job(2, 0, SETTINGS)
    assert (first.first_connection, second.first_connection) == (1_000_000_000_001, 2_000_000_000_001)


def test_a_worker_has_its_share_of_held_bytes_and_neither_admin_page_nor_live_process():
    worker_settings = Job(1, 0, SETTINGS).worker_settings
    assert worker_settings.held_in_all == 334
    assert worker_settings.metrics is None
    assert not worker_settings.live.is_asked_for
    assert worker_settings.connection_limit == 34
    assert [cluster.connection_limit for cluster in worker_settings.clusters] == [3, None]
    assert worker_settings.clusters[1] == SETTINGS.clusters[1]
    assert worker_settings.drain_seconds == 3


@given(limit=st.integers(1, 10_000), workers=st.integers(1, 64))
def test_the_parts_are_as_even_as_can_be_and_together_the_limit(limit: int, workers: int):
    settings = replace(SETTINGS, connection_limit=limit, workers=workers)
    parts = [Job(slot + 1, slot, settings).worker_settings.connection_limit or 0 for slot in range(workers)]
    # a worker with a limit of 0 would refuse clients for which another worker has space
    assert sum(parts) == max(limit, workers)
    assert 1 <= min(parts) <= max(parts) <= min(parts) + 1
