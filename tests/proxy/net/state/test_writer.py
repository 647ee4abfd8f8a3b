from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from proxy.mapping.nodes import Node
from proxy.net import server
from proxy.net.state import writer as writers
from proxy.net.state.file import KnownNode, SavedState, read_state
from proxy.net.state.writer import StateWriter
from proxy.schema.addresses import Address
from proxy.wire import catalog
from proxy.wire.framing import framed
from proxy.wire.keys import METADATA
from tests.proxy.net.peers import HOST, PATIENCE
from tests.proxy.net.proxies import proxying
from tests.proxy.net.relays import settings
from tests.proxy.net.threads import no_threads


class Disk:
    """A disk that writes one state at a time, when it is allowed to."""

    def __init__(self) -> None:
        self.may_write = threading.Semaphore(0)
        self.asked = threading.Semaphore(0)
        self.done = threading.Semaphore(0)
        self.written: list[int] = []
        self.fails = False

    def write(self, path: Path, state: SavedState) -> None:
        self.asked.release()
        assert self.may_write.acquire(timeout=PATIENCE)
        try:
            if self.fails:
                raise OSError(28, "No space left on device")
            self.written.append(len(state.nodes))
        finally:
            self.done.release()


class Table:
    """The state to save: a number of nodes."""

    def __init__(self, path: Path) -> None:
        self.count, self.path = 0, path
        self.writer = StateWriter(
            path, lambda: SavedState(dict.fromkeys(range(self.count), KnownNode(Address("b", 1))))
        )

    def grow(self) -> None:
        self.count += 1
        self.writer.changed()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(writers, "write_state", disk.write)
    yield disk
    disk.may_write.release(1000)
    for thread in threads_of_writers():
        thread.join(PATIENCE)


def threads_of_writers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wiretap-state"]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "state" / "nodes.json")


def test_a_changed_table_is_in_the_file(table):
    table.grow()
    table.writer.close()
    assert read_state(table.path).nodes == {0: KnownNode(Address("b", 1))}


def test_an_unchanged_table_is_not_written(table):
    table.writer.close()
    assert not table.path.parent.exists()


def test_while_the_disk_is_busy_only_the_newest_state_waits(table, disk):
    for _ in range(100):
        table.grow()
    assert disk.asked.acquire(timeout=PATIENCE)
    for _ in range(100):
        table.grow()
    disk.may_write.release(3)
    table.writer.close()
    assert disk.written[-1] == 200
    assert len(disk.written) <= 2


def test_a_change_after_the_last_write_is_written_too(table, disk):
    disk.may_write.release(100)
    for _ in range(20):
        table.grow()
        assert disk.asked.acquire(timeout=PATIENCE)
    table.writer.close()
    assert disk.written[-1] == 20


def test_a_change_after_closing_is_not_written(table, disk):
    disk.may_write.release(100)
    table.writer.close()
    table.grow()
    table.writer.close()
    assert disk.written == []


def test_a_hanging_disk_blocks_one_thread_and_no_task(table, disk):
    for _ in range(100):
        table.grow()
    (thread,) = threads_of_writers()
    assert thread.daemon


def test_a_full_disk_and_its_recovery_are_logged_once_each(table, disk, caplog):
    caplog.set_level(logging.INFO)
    disk.may_write.release(100)
    disk.fails = True
    for _ in range(3):
        table.grow()
        assert disk.done.acquire(timeout=PATIENCE)
    disk.fails = False
    table.grow()
    table.writer.close()
    assert [record.message for record in caplog.records] == [
        "state file can't be written",
        "state file is written again",
    ]
    assert disk.written == [4]


@pytest.mark.parametrize("seed", range(3))
def test_the_file_holds_the_newest_state_in_the_end(table, seed):
    threads = [threading.Thread(target=lambda: [table.grow() for _ in range(50)]) for _ in range(seed + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table.writer.close()
    assert len(read_state(table.path).nodes) == table.count


async def test_neither_an_answer_that_names_a_new_node_nor_sigterm_waits_for_a_disk_that_hangs(
    disk, broker, tmp_path, monkeypatch
):
    monkeypatch.setattr(server, "RELEASE_SECONDS", 0.01)
    state = tmp_path / "nodes.json"
    async with proxying(settings(broker.address, state=state)) as proxy:
        await proxy.nodes(1)
        assert await trio.to_thread.run_sync(disk.asked.acquire)
        broker.nodes = [Node(number, HOST, broker.address.port) for number in range(1, 4)]
        client = await proxy.client()
        await client.say(framed(catalog.encode_request(METADATA, 12, 7, "tests", {})))
        with trio.fail_after(PATIENCE / 2):
            await client.hear_frame()
        for number in (2, 3):
            (await proxy.client(number)).close()
        client.close()
        proxy.stop()
        await proxy.ends_with(0)
    assert disk.written == []


@pytest.mark.parametrize("changes", [1, 3])
def test_closing_writes_the_state_that_no_thread_could_write(table, changes, caplog):
    with no_threads():
        for _ in range(changes):
            table.grow()
        table.writer.close()
    assert len(read_state(table.path).nodes) == changes
    assert [record.keys["reason"] for record in caplog.records if "can't" in record.message] == ["no thread can be had"]


def test_the_next_change_is_written_once_threads_are_available_again(table, disk):
    with no_threads():
        table.grow()
    table.grow()
    disk.may_write.release(100)
    assert disk.done.acquire(timeout=PATIENCE)
    assert disk.written == [2]


def test_a_fault_while_the_state_is_written_does_not_block_closing(table, monkeypatch, caplog):
    def faulty(path: Path, state: SavedState) -> None:
        raise KeyError("missing")

    monkeypatch.setattr(writers, "write_state", faulty)
    table.grow()
    closing = threading.Thread(target=table.writer.close, daemon=True)
    closing.start()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert "state file can't be written: a fault" in caplog.text


async def test_a_stop_without_threads_keeps_the_nodes_and_closes_the_recorder(broker, tmp_path):
    state = tmp_path / "nodes.json"
    async with proxying(settings(broker.address, state=state)) as proxy:
        with no_threads():
            await proxy.nodes(1)
            proxy.stop()
            await proxy.ends_with(0)
    assert proxy.watcher.events[-1] == ("close",)
    assert 1 in read_state(state).nodes
