"""Tests of `inspect` over a capture in a bucket: it lists what it lists of the folder, and one line says what fails."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.wire.keys import PRODUCE
from proxy.wire.records import Record, write_batch
from recorder.inspect.commands import inspect
from recorder.making_facts import facts
from recorder.ready import URL_NOTE
from tests.recorder.analysis.by_exchange import Talk
from tests.recorder.analysis.conftest import write_frames
from tests.s3 import Store, metered, store


def run(*arguments: object) -> Result:
    return CliRunner().invoke(inspect, [str(argument) for argument in arguments])


COMMANDS = (
    ("summary", "--json"),
    ("frames",),
    ("frames", "--json", "--api", "Fetch"),
    ("frames", "--kind", "response", "-o", "id,at,size,error"),
    ("exchanges", "--json", "--since", "-3s"),
    ("exchanges", "topic == t and error"),
    ("exchanges", "--slowest", "2", "--csv"),
    ("records", "--json"),
    ("topics", "--topic", "t"),
    ("errors", "--json"),
    ("clients", "--csv"),
    ("latency", "--by", "client"),
    ("exchanges", "--client", "nobody"),
)


@pytest.mark.real
def test_a_bucket_is_listed_as_the_folder_that_it_was_copied_from(s3: Store, folder: Path) -> None:
    url = s3.put(folder, "inspected")
    for command, *rest in COMMANDS:
        here, there = run(command, folder, *rest), run(command, url, *rest)
        assert (there.exit_code, there.exception) == (0, None), (command, rest, there.output)
        # the folder has no log either
        assert there.stderr == (f"note: {URL_NOTE}\n" if command != "summary" else "") + here.stderr
        if command != "summary":
            assert there.stdout == here.stdout
    assert run("show", url, "1/e1").stdout == run("show", folder, "1/e1").stdout


@pytest.mark.real
def test_facts_in_a_bucket_spare_the_frames_from_being_fetched(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, talk, rows = random.Random(1), Talk(), []
    done = {"responses": [{"name": "orders", "partition_responses": [{"index": 0}]}]}
    for number in range(100):
        records = write_batch([Record(0, 1000, value=chance.randbytes(100_000))])
        asked = {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]}
        rows += talk.exchange(PRODUCE, 8, number, asked, done)
    write_frames(tmp_path / "capture", rows, 100)
    url = s3.put(tmp_path / "capture", "weighed")
    fetched, listed = [], []
    for _ in range(2):
        with metered(s3) as (meter, endpoint):
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
            listed.append(run("topics", url, "--topic", "orders", "--json").stdout)
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
        fetched.append(meter.bytes)
        CliRunner().invoke(facts, [url, "--processes", "1"])
    assert listed[0] == listed[1] != ""
    assert fetched[0] > 10_000_000
    assert fetched[1] < fetched[0] / 3


@pytest.mark.real
def test_a_file_that_fails_in_the_middle_is_named_in_one_line(s3: Store, folder: Path) -> None:
    url = s3.put(folder, "damaged")
    (file,) = folder.rglob("frames/**/*.parquet")
    name = f"damaged/kept/{file.relative_to(folder)}"
    with s3.system().open_output_stream(name) as target:
        target.write(file.read_bytes()[:-100])
    file.write_bytes(file.read_bytes()[:-100])
    for command in ("frames", "exchanges", "records", "topics", "errors", "clients", "latency"):
        here, there = run(command, folder), run(command, url)
        assert here.exit_code == there.exit_code == 1
        assert there.stderr.removeprefix(f"note: {URL_NOTE}\n") == here.stderr.replace(str(folder), url)
        assert here.stderr.count("\n") == 1


@pytest.mark.real
@pytest.mark.parametrize("command", ["frames", "exchanges", "records", "latency"])
def test_a_store_that_goes_while_it_is_read_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    with store() as leaving:
        for name, value in leaving.environment.items():
            monkeypatch.setenv(name, value)
        url = leaving.put(folder, "leaving")
        # it goes once the capture was found
        monkeypatch.setattr("recorder.inspect.commands.ready_at", lambda place: ())
    found = run(command, url)
    assert found.exit_code == 1
    assert found.stderr.startswith("Error: the store can't be read: network connection: ")
    assert found.stderr.count("\n") == 1


def test_other_urls_and_an_empty_bucket_are_one_line(s3: Store) -> None:
    other = run("frames", "hdfs://host/capture")
    assert (other.exit_code, other.stderr.splitlines()[-1]) == (
        2,
        "Error: Invalid value for 'FOLDER': 'hdfs://host/capture' is no capture's URL; right would be s3://BUCKET/FOLDER",
    )
    empty = run("exchanges", "s3://nowhere/kept")
    assert (empty.exit_code, empty.output) == (
        2,
        "Error: s3://nowhere/kept holds no frames: right would be s3://BUCKET/FOLDER with a frames folder\n",
    )
    follow = run("frames", "s3://nowhere/kept", "--follow")
    assert (follow.exit_code, follow.output) == (
        2,
        "Error: s3://nowhere/kept is a URL; right with --follow would be a folder of this machine\n",
    )
