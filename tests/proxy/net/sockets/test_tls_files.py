"""Tests of certificates and keys whose files change, or are on a disk that hangs."""

from __future__ import annotations

import math
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config.tls import ListenerTls
from proxy.net.sockets import tls as tls_streams
from proxy.net.sockets.tls import LiveCredentials, TlsStream
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.threads import no_threads
from tests.proxy.net.tls_peers import (
    Certificates,
    Ends,
    TlsPeer,
    certificates,
    client_context,
    listening,
    plain_pair,
)


async def test_the_next_connection_has_the_new_certificate_and_the_old_one_continues(tmp_path: Path):
    signed = certificates(tmp_path)
    shared = listening(ListenerTls(signed.proxy))
    both = []
    for name in ("first", "second"):
        signed.ca.signs("proxy", common_name=name)
        below, sock = plain_pair()
        ends = Ends(TlsStream(below, shared), TlsPeer(sock, client_context(signed.ca), asks_for="localhost"))
        await ends.shake_hands()
        both.append(ends)
    for ends, name in zip(both, ("first", "second"), strict=True):
        assert (("commonName", name),) in ends.peer.stream.getpeercert()["subject"]
        await ends.stream.send([b"still here"])
        await ends.peer.hears(b"still here")
        ends.close()


class Files:
    """Credentials whose files block their readers on request."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.of = "clusters.main.tls"
        self.context = context
        self.looks = 0
        self.well = threading.Event()
        self.begun = threading.Event()
        self.well.set()

    def refresh(self) -> None:
        self.looks += 1
        self.begun.set()
        self.well.wait()


@pytest.fixture
def files(signed: Certificates) -> Iterator[Files]:
    files = Files(listening(ListenerTls(signed.proxy)).context)
    yield files
    files.well.set()


async def test_files_on_a_disk_that_hangs_are_waited_for_by_one_connection_and_by_one_thread(
    files, caplog, jumping_clock
):
    shared = LiveCredentials(files)
    files.well.clear()
    began = trio.current_time()
    jumps, jumping_clock.autojump_threshold = jumping_clock.autojump_threshold, math.inf
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.refresh)
        while not files.begun.is_set():
            await wait_all_tasks_blocked(0.001)
        jumping_clock.autojump_threshold = jumps
    for _ in range(4):
        await shared.refresh()
    assert trio.current_time() - began == pytest.approx(tls_streams.CHECK_SECONDS)
    assert files.looks == 1
    (record,) = caplog.records
    assert record.message == "certificates can't be checked: those from before stay"
    assert record.keys["of"] == "clusters.main.tls"


async def test_files_are_checked_again_once_the_disk_recovers(files, monkeypatch):
    monkeypatch.setattr(tls_streams, "CHECK_SECONDS", 0.01)
    shared = LiveCredentials(files)
    files.well.clear()
    await shared.refresh()
    files.well.set()
    with trio.fail_after(PATIENCE):
        while files.looks < 2:
            await shared.refresh()
            await trio.sleep(0.001)


async def test_a_file_check_that_ends_just_as_it_is_abandoned_does_not_hang(files, monkeypatch, autojump_clock):
    shared = LiveCredentials(files)

    async def ends_too_late(look, **options):
        look()
        await trio.sleep_forever()

    monkeypatch.setattr(trio.to_thread, "run_sync", ends_too_late)
    for looks in (1, 2):
        await shared.refresh()
        assert files.looks == looks


async def test_connections_that_begin_during_a_file_check_share_the_next_one(files, nursery):
    shared, looked = LiveCredentials(files), []

    async def begin(number: int) -> None:
        await shared.refresh()
        looked.append(number)

    files.well.clear()
    nursery.start_soon(begin, 0)
    with trio.fail_after(PATIENCE):
        while not files.looks:
            await wait_all_tasks_blocked(0.001)
    for number in range(1, 20):
        nursery.start_soon(begin, number)
    await wait_all_tasks_blocked(0.001)
    files.well.set()
    with trio.fail_after(PATIENCE):
        while len(looked) < 20:
            await wait_all_tasks_blocked(0.001)
    # none of them had begun before the second read
    assert files.looks == 2


async def test_a_handshake_does_not_wait_for_a_disk_that_hangs(files, signed, monkeypatch):
    monkeypatch.setattr(tls_streams, "CHECK_SECONDS", 0.01)
    shared = LiveCredentials(files)
    files.well.clear()
    for _ in range(2):
        below, sock = plain_pair()
        ends = Ends(TlsStream(below, shared), TlsPeer(sock, client_context(signed.ca), asks_for="localhost"))
        await ends.shake_hands()
        ends.close()
    # the machine may start the thread late
    assert files.begun.wait(PATIENCE)
    assert files.looks == 1


async def test_files_that_no_thread_can_check_stay_and_that_is_logged_once(files, caplog):
    shared = LiveCredentials(files)
    with no_threads():
        for _ in range(3):
            await shared.refresh()
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.keys["reason"] == "no thread can be had"
    await shared.refresh()
    assert files.looks == 1
