"""Tests that what a lost key takes back of a capture has never been shipped: a bucket never gives anything back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from recorder.capture import unshipped
from recorder.capture.compactor import compact
from recorder.capture.tap import open_tap
from tests.faulty_s3 import Front
from tests.recorder.capture.looks import kill
from tests.recorder.capture.test_lost_key import ENCRYPTED, compact_until, handover_of, play, some_talks
from tests.recorder.shipping.shipped import local, remote, shipper
from tests.s3 import Store
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real


@pytest.mark.parametrize("last", mostly_long(range(30), usual=lambda last: last == 9))
def test_rows_without_the_state_behind_them_wait_until_it_is_there(
    s3: Store, store_front: Front, tmp_path: Path, last: int
) -> None:
    """Both processes are killed before a step of the compactor, and the shipper lives on."""
    rng = random.Random(last)
    tap = open_tap(tmp_path, ENCRYPTED)
    play(tap, rng, some_talks(rng), ends=True)
    compact_until(tmp_path, tap.session, handover_of(tap), last)
    kill(tap)
    with shipper(tmp_path) as opened:
        opened.ship_all(1)
        compact(tmp_path)
        assert opened.ship_all(1)
    assert remote(s3) == local(tmp_path)
    assert unshipped.waiting(tmp_path) == []
