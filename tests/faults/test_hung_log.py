"""Tests of a log that nobody reads: a collector that hangs, a stopped terminal.

Traffic must go on, and one signal must end the proxy with its exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from tests.brokers.children import KEEPS_NOTHING_FREE
from tests.brokers.ports import Reserved
from tests.brokers.waiting import PATIENCE, wait_for
from tests.proxy.net.cluster import Broker
from tests.proxy.net.frames import ping, pong
from tests.proxy.net.peers import HOST, Peer
from tests.proxy.net.relays import listens
from tests.proxy.unread import full_pipe
from tests.sweeps import mostly_long

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
PROXY = [sys.executable, "-c", "from proxy.cli import main; main()", "proxy", "--log-level", "debug"]
CLIENTS = 20


@asynccontextmanager
async def running(*arguments: object) -> AsyncIterator[trio.Process]:
    with full_pipe() as unread:
        env = os.environ | KEEPS_NOTHING_FREE
        process = await trio.lowlevel.open_process([*PROXY, *map(str, arguments)], cwd=ROOT, env=env, stderr=unread)
        try:
            with trio.fail_after(PATIENCE):
                yield process
        finally:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("workers", mostly_long([2, 1], usual=1))
async def test_an_unread_log_delays_neither_traffic_nor_the_end(workers, nursery, tmp_path):
    broker = Broker()
    await broker.start(nursery)
    reserved, capture = Reserved(HOST), tmp_path / "capture"
    arguments = ["--upstream", broker.address, "--listen", reserved, "--workers", workers, "--record", capture]
    async with running(*arguments) as proxy:
        await trio.to_thread.run_sync(wait_for, lambda: listens(reserved.port), "the proxy to listen")
        for _ in range(CLIENTS):
            client = Peer(await trio.open_tcp_stream(HOST, reserved.port))
            await client.say(ping(1))
            await client.hears(pong(1))
            await client.stream.aclose()
        proxy.terminate()
        assert await proxy.wait() == 0
    nursery.cancel_scope.cancel()
    reserved.release()
