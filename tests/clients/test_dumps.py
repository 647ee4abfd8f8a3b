"""Tests of one run that is recorded both ways: by the proxy, and by tcpdump between the proxy and the brokers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from proxy.cli import main
from recorder.capture import frames as c
from recorder.pcap.dump import UnreadableDump, packets
from recorder.pcap.layers import Segment, segment
from tests.brokers import children
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.harness import proxied
from tests.clients.workloads import confluent, python
from tests.recorder.capture.looks import event_rows, frame_rows

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.dump]


@contextmanager
def dumped(cluster: KafkaCluster, file: Path) -> Iterator[None]:
    """tcpdump of what passes between the proxy and the brokers. Needs the right to capture."""
    program, log = shutil.which("tcpdump"), file.with_suffix(".log")
    assert program is not None, "tcpdump is missing: scripts/setup installs it"
    ends = [f"(host {node.tapped.host} and port {node.tapped.port})" for node in cluster.nodes.values()]
    rights = ["-Z", "root"] if os.geteuid() == 0 else []
    command = [
        program,
        "-i",
        "lo",
        "-s",
        "0",
        "-B",
        "65536",
        "-U",
        "--immediate-mode",
        *rights,
        "-w",
        str(file),
        " or ".join(ends),
    ]
    child = children.spawn(command, output=log)
    wait_for(lambda: "listening on" in log.read_text() or child.poll() is not None, "tcpdump")
    assert child.poll() is None, log.read_text()
    try:
        yield
        # tcpdump is behind: what it has written by now is whole once a later connection is in it
        last = next(iter(cluster.nodes.values())).tapped
        with socket.create_connection((last.host, last.port)) as later:
            port = later.getsockname()[1]
            wait_for(lambda: port in ports_in(file), "tcpdump to have written everything")
    finally:
        child.send_signal(signal.SIGINT)
        assert children.stop(child, seconds=60) == 0, log.read_text()
    assert " 0 packets dropped by kernel" in " " + log.read_text().replace("\n", " "), log.read_text()


def ports_in(file: Path) -> set[int]:
    """The clients' ports in a dump, as far as it is written."""
    found = set()
    with suppress(UnreadableDump):
        for one in packets(file):
            read = segment(one.link, one.data)
            if isinstance(read, Segment):
                found.add(read.source.port)
    return found


def connections(rows: Sequence[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The frames that passed between proxy and brokers, by connection and direction."""
    by_proxy = {(row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE]) for row in rows if row[c.MADE_BY] == c.BY_PROXY}
    found: dict[tuple[str, int], tuple[list[Any], list[Any]]] = {}
    for row in rows:
        if (row[c.SESSION], row[c.CONNECTION], row[c.EXCHANGE]) not in by_proxy:
            sides = found.setdefault((row[c.SESSION], row[c.CONNECTION]), ([], []))
            sides[row[c.KIND] == c.RESPONSE].append((row[c.API], row[c.CORRELATION_ID], row[c.FRAME]))
    return Counter((tuple(requests), tuple(responses)) for requests, responses in found.values())


@pytest.mark.parametrize("workload", [python.produces_and_consumes, confluent.produces_and_consumes])
def test_a_dump_beside_the_proxy_holds_the_same_frames(
    kafka_three: KafkaCluster, tmp_path: Path, workload: Callable[[str], None]
) -> None:
    # the proxy's first questions may be in the dump only in part: it starts before
    with proxied(kafka_three, tmp_path) as proxy, dumped(kafka_three, tmp_path / "dump.pcap"):
        workload(proxy.bootstrap)
        proxy.stop()
    result = CliRunner().invoke(main, ["import", str(tmp_path / "dump.pcap"), str(tmp_path / "imported")])
    assert result.exit_code == 0, result.output
    recorded, imported = connections(frame_rows(proxy.capture)), connections(frame_rows(tmp_path / "imported"))
    assert recorded
    assert not recorded - imported
    # the rest are the proxy's own questions
    own = [row for row in frame_rows(tmp_path / "imported") if row[c.CLIENT_ID] == "kafka-wiretap"]
    assert (imported - recorded).total() == len({row[c.CONNECTION] for row in own})
    assert not event_rows(tmp_path / "imported", c.EVENT_GAP)
