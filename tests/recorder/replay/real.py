"""Records the traffic of a client of the matrix with a real cluster, and replays it to another cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recorder.replay.plan import BY_CHOICE, Reason
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.harness import PROGRAM, Proxied, compact
from tests.recorder.replay import brokers_logs
from tests.recorder.replay.brokers_logs import Entry, Group, Place

_SECONDS = 300


@dataclass(frozen=True)
class Recording:
    """A capture, and the changes in the cluster that were recorded."""

    capture: Path
    logs: Mapping[Place, list[Entry]]
    groups: Mapping[str, Group]


@dataclass(frozen=True)
class Replayed:
    """A replay's exit code, report and output."""

    code: int
    report: Mapping[str, Any]
    printed: str


def record(cluster: KafkaCluster, folder: Path, work: Callable[[KafkaCluster, str], None]) -> Recording:
    """Captures a client's work. `work` gets the cluster and the proxy's address."""
    before, known = _logs_of(cluster).keys(), brokers_logs.groups(cluster.bootstrap).keys()
    with Proxied(cluster, folder) as proxy:
        work(cluster, proxy.bootstrap)
    compact(proxy.capture)
    new = {place: log for place, log in _logs_of(cluster).items() if place not in before}
    groups = {name: group for name, group in brokers_logs.groups(cluster.bootstrap).items() if name not in known}
    return Recording(proxy.capture, new, groups)


def replay(recording: Recording, bootstrap: str, folder: Path, *options: str) -> Replayed:
    """Plays a capture to a cluster that has none of its topics."""
    report = folder / "report.json"
    asked = ["--to", bootstrap, "--create-topics", "--yes", "--report", str(report), *options]
    command = [*PROGRAM, "replay", str(recording.capture), *asked]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert report.exists(), done.stderr
    return Replayed(done.returncode, json.loads(report.read_text()), done.stdout)


def check_as_recorded(recording: Recording, replayed: Replayed, bootstrap: str, folders: Iterable[Path]) -> None:
    """Asserts a report without differences, and that the target has equal records, groups and committed offsets."""
    assert replayed.code == 0, replayed.printed
    assert not replayed.report["differences"], replayed.printed
    check_logs(recording, folders)
    check_groups(recording, bootstrap)


def check_withheld(replayed: Replayed, allowed: Mapping[str, Collection[Reason]]) -> None:
    """Asserts no difference, and that all was played but for these reasons, a missing option, or the recording's own.

    What the recording refused counts as played.
    """
    assert replayed.code == 0, replayed.printed
    assert not replayed.report["differences"], replayed.printed
    for api, counts in replayed.report["apis"].items():
        reasons = {*counts["withheld"]} - {reason.value for reason in BY_CHOICE | {Reason.REFUSED}}
        assert reasons <= {reason.value for reason in allowed.get(api, ())}, (api, counts)
        assert not counts["partitions"], (api, counts)


def check_logs(recording: Recording, folders: Iterable[Path]) -> None:
    """Asserts that each partition has equal records, each producer's in order, and transactions with the same end."""
    kept = [*folders]

    def differs() -> list[str]:
        target = brokers_logs.logs(kept)
        return brokers_logs.what_differs(recording.logs, {place: target.get(place, []) for place in recording.logs})

    assert any(recording.logs.values())
    try:
        # end markers of transactions follow a moment after EndTxn, and copies a moment after their leaders
        wait_for(lambda: not differs(), "the target's log")
    except TimeoutError:
        raise AssertionError(differs()) from None


def check_groups(recording: Recording, bootstrap: str) -> None:
    """Asserts that each group with committed offsets has the same ones, and the same state."""
    committed = {name: group for name, group in recording.groups.items() if group.offsets}

    def differ() -> dict[str, tuple[Group, Group | None]]:
        there = brokers_logs.groups(bootstrap)
        return {name: (group, there.get(name)) for name, group in committed.items() if there.get(name) != group}

    try:
        wait_for(lambda: not differ(), "the target's groups")
    except TimeoutError:
        raise AssertionError(differ()) from None


def folders_of(cluster: KafkaCluster) -> list[Path]:
    """Returns the folder of each node's logs."""
    return [node.folder / "data" for node in cluster.nodes.values()]


def _logs_of(cluster: KafkaCluster) -> dict[Place, list[Entry]]:
    return brokers_logs.logs(folders_of(cluster))
