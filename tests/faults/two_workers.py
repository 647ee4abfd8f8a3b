"""Runs two recording workers before a scripted broker, and has the queries that their tests share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from tests.brokers.waiting import wait_for
from tests.faults.live import Client, LiveProxy, Talk, Where, answer, broker, mixed

SMALL = mixed((5, 5, 300), 12)
CONNECTIONS = 60


@contextmanager
def running(
    folder: Path, *more: str, upstream: Where | None = None, env: Mapping[str, str] = MappingProxyType({})
) -> Iterator[LiveProxy]:
    """Two workers in front of a broker, recording."""
    with broker() as own:
        flags = ("--workers", "2", "--record-when-full", "wait", "--log-level", "debug", *more)
        with LiveProxy(upstream or own, folder / "capture", folder / "proxy.log", *flags, env=env) as proxy:
            yield proxy


def log_of(folder: Path) -> list[str]:
    return (folder / "proxy.log").read_text().splitlines()


def worker_of(client: str, folder: Path) -> str:
    """The number of the worker that had a connection, as the log says it."""
    (line,) = [line for line in log_of(folder) if "connection closed" in line and f"client={client} " in line]
    return line.partition("worker=")[2].split()[0]


def connected(where: Where, count: int = CONNECTIONS) -> list[Client]:
    clients = [Client(where) for _ in range(count)]
    for client in clients:
        client.exchange()
    return clients


def until_shared(proxy: LiveProxy, clients: list[Client]) -> None:
    """Connects more clients until each worker has more than a fifth of all.

    Workers accept by turns, but on a busy machine one may miss many. Then it is the other ones' turn to wait for it.
    """

    def is_shared() -> bool:
        names = {client.name for client in clients}
        if min(len(names & clients_of(worker)) for worker in proxy.workers()) > len(clients) // 5:
            return True
        clients.extend(connected(proxy.listening, 10))
        return False

    wait_for(is_shared, "each worker to have its share")


def closed(*clients: Client) -> None:
    for client in clients:
        client.close()


def clients_of(worker: psutil.Process) -> set[str]:
    """Whose connections the process has."""
    return {"{}:{}".format(*one.raddr) for one in worker.net_connections("tcp") if one.raddr}


def assert_recorded(rows: list[dict[str, Any]], talk: Talk, least: int) -> None:
    """The capture holds the beginning of both streams, byte for byte, each frame once."""
    found = [row for row in rows if row["client"] == talk.client and not (row["note"] or "").startswith("cut")]
    assert len({(row["session"], row["connection"]) for row in found}) <= 1
    assert [row["sequence"] for row in found] == list(range(len(found)))
    requests = [row["frame"] for row in found if row["kind"] == "request"]
    responses = [row["frame"] for row in found if row["kind"] == "response"]
    assert requests == [sent[4:] for sent in talk.sent[: len(requests)]]
    assert responses == [answer(sent[4:])[4:] for sent in talk.sent[: len(responses)]]
    assert min(len(requests), len(responses)) >= least
