"""Tests of interrupted exports: they report the number of events in the topic."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.brokers import children
from tests.brokers.mock import MockCluster
from tests.brokers.waiting import PATIENCE
from tests.recorder.running import unread_capture

ROOT = Path(__file__).resolve().parents[3]
TOPIC = "findings"
# the number of events in the full export
WANTED = 200

# It sends itself a signal within the response to an event. `_findings` sets handlers, as Spark's session does.
EXPORT = f"""
import signal, sys
from collections import Counter
from proxy.cli import main
from proxy.command_line import ending_signals, interrupt
from recorder import spark_options
from recorder.analysis.summary.bounds import Table
from recorder.analysis.summary.sections.findings import Finding, Findings, Severity
from recorder.export import commands
from recorder.export.publisher import Publisher

FOLDER, BOOTSTRAP, NUMBER, ANSWER = sys.argv[1:]

class Delivered(Counter):
    def __setitem__(self, partition, count):
        if sum(self.values()) + 1 == int(ANSWER):
            signal.raise_signal(int(NUMBER))
        super().__setitem__(partition, count)

class Interrupted(Publisher):
    def check(self):
        super().check()
        self._delivered = Delivered()

def found(*_):
    for number in ending_signals():
        signal.signal(number, interrupt)
    one = Finding("slow", Severity.CRITICAL, "Fetch on node 2", "it was slow", "look", 10**18)
    return Findings(found=Table((one,) * {WANTED}))

commands._findings = found
spark_options.check_spark = lambda: None
sys.modules["recorder.export.publisher"].Publisher = Interrupted
main(["export", FOLDER, "--cloudevents", "{TOPIC}", "--bootstrap", BOOTSTRAP])
"""


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with MockCluster(1) as cluster:
        Producer({"bootstrap.servers": cluster.bootstrap}).list_topics(TOPIC, timeout=PATIENCE)
        yield cluster.bootstrap


def written(bootstrap: str) -> int:
    """Returns the number of records in the topic."""
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": "anyone"})) as reader:
        partitions = reader.list_topics(TOPIC, timeout=PATIENCE).topics[TOPIC].partitions
        ends = (reader.get_watermark_offsets(TopicPartition(TOPIC, one), timeout=PATIENCE) for one in partitions)
        return sum(end for _, end in ends)


@pytest.mark.real
@pytest.mark.parametrize(("number", "answer"), [(signal.SIGHUP, 1), (signal.SIGTERM, 1), (signal.SIGINT, WANTED // 2)])
def test_an_interrupted_export_prints_how_many_events_the_topic_has(
    bootstrap: str, tmp_path: Path, number: signal.Signals, answer: int
) -> None:
    command = [sys.executable, "-c", EXPORT, str(unread_capture(tmp_path)), bootstrap, str(int(number)), str(answer)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode == 0:
        # all events had been sent when the signal came
        assert answer > 1
        assert written(bootstrap) == WANTED
        assert done.stdout.startswith(f"published {WANTED} findings to {TOPIC}: ")
        return
    said = re.fullmatch(
        rf"Error: (\d+) of {WANTED} events were published to {TOPIC}, then: it was interrupted; "
        "exporting again is safe, since events keep their ids",
        # a slow export also says that it waits
        done.stderr.splitlines()[-1],
    )
    assert said, done.stderr
    assert (done.returncode, done.stdout) == (1, "")
    assert answer <= int(said[1]) == written(bootstrap)


@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_export_interrupted_before_it_found_the_topic_prints_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-c", EXPORT, str(unread_capture(tmp_path)), address, "0", "0"]
        child = children.spawn(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            # the export waits for a response from its first connection on
            silent.accept()[0].close()
            child.send_signal(number)
            out, err = child.communicate(timeout=PATIENCE)
        finally:
            children.stop(child)
    assert (child.returncode, out, err) == (-signal.SIGINT, "", "")
