"""Tests of a bucket's calls: what the store has not, and stores that are so slow that a file never arrives."""

from __future__ import annotations

import hashlib
import io
import socket
from collections.abc import Iterator
from itertools import count
from urllib.request import urlopen

import pytest

from recorder.shipping import store
from recorder.shipping.store import SLOWEST, Cause, StoreError
from tests.faulty_s3 import Fault, Front
from tests.recorder.shipping.shipped import URL
from tests.s3 import Store

pytestmark = pytest.mark.real

# in pieces of 16 KiB as the SDK sends them, and of 256 KiB as it counts those of parts: never SLOWEST a second
SECONDS_A_LOOK = 2.0 * (256 << 10) / SLOWEST
CONTENT = bytes(6 << 20)
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Clock:
    """Shows the same time until it is made to run: then so many seconds pass from each look to the next one."""

    def __init__(self) -> None:
        self._times: Iterator[float] = count(0.0, 0.0)

    def __call__(self) -> float:
        return next(self._times)

    def run(self) -> None:
        self._times = count(SECONDS_A_LOOK, SECONDS_A_LOOK)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(store_front: Front, clock: Clock) -> store.Store:
    return store.Store(URL, clock=clock)


def test_a_store_that_nothing_listens_for_is_unreachable(store_front: Front) -> None:
    with socket.socket() as taken:
        # bound, and not listened on
        taken.bind(("127.0.0.1", 0))
        away = store.Store(URL, endpoint="http://{}:{}".format(*taken.getsockname()))
        with pytest.raises(StoreError) as refused:
            away.put("x", io.BytesIO(b"x"), 1, f"sha256:{hashlib.sha256(b'x').hexdigest()}")
    assert refused.value.cause is Cause.UNREACHABLE


def test_what_the_store_does_not_have_is_no_failure_whatever_it_says_first(
    s3: Store, opened: store.Store, store_front: Front
) -> None:
    store_front.fault = lambda method, key: Fault.FORBIDDEN if method == "HEAD" else None
    assert not opened.holds("x", len(CONTENT), DIGEST)
    opened.put("x", io.BytesIO(CONTENT), len(CONTENT), DIGEST)
    assert opened.holds("x", len(CONTENT), DIGEST)
    urlopen(f"{s3.endpoint}/moto-api/reset", data=b"").close()
    with pytest.raises(StoreError) as away:
        opened.holds("x", len(CONTENT), DIGEST)
    assert away.value.cause is Cause.NO_BUCKET


def failure(of: pytest.ExceptionInfo[StoreError]) -> tuple[Cause, bool]:
    return of.value.cause, "bytes went in" in str(of.value)


@pytest.mark.parametrize("largest_whole", [len(CONTENT), len(CONTENT) - 1], ids=["whole", "in parts"])
def test_a_file_whose_bytes_trickle_out_is_a_timeout(
    opened: store.Store, clock: Clock, monkeypatch: pytest.MonkeyPatch, largest_whole: int
) -> None:
    monkeypatch.setattr(store, "LARGEST_WHOLE", largest_whole)
    opened.put("x", io.BytesIO(CONTENT), len(CONTENT), DIGEST)
    assert opened.holds("x", len(CONTENT), DIGEST)
    clock.run()
    with pytest.raises(StoreError) as slow:
        opened.put("x", io.BytesIO(CONTENT), len(CONTENT), DIGEST)
    assert failure(slow) == (Cause.TIMEOUT, True)


def test_a_file_whose_bytes_trickle_in_is_a_timeout(opened: store.Store, clock: Clock, store_front: Front) -> None:
    opened.put("x", io.BytesIO(CONTENT), len(CONTENT), DIGEST)
    store_front.fault = lambda method, key: Fault.NO_DIGEST
    assert opened.holds("x", len(CONTENT), DIGEST)
    clock.run()
    with pytest.raises(StoreError) as slow:
        opened.holds("x", len(CONTENT), DIGEST)
    assert failure(slow) == (Cause.TIMEOUT, True)


def test_a_store_that_reads_no_more_of_a_file_is_a_timeout(store_front: Front) -> None:
    # more than sockets hold
    content = bytes(64 << 20)
    store_front.fault = lambda method, key: Fault.STUCK
    with pytest.raises(StoreError) as stuck:
        store.Store(URL, silent_seconds=1).put("x", io.BytesIO(content), len(content), DIGEST)
    assert stuck.value.cause is Cause.TIMEOUT
