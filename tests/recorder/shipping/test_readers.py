"""Tests that a shipped capture reads as its folder, by every command and from Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import recorder
from proxy.cli import main
from tests.brokers.mock import MockCluster
from tests.faulty_s3 import Front
from tests.recorder.shipping.shipped import URL, shipper

pytestmark = [pytest.mark.real, pytest.mark.long]


@pytest.fixture
def url(store_front: Front, folder: Path) -> str:
    with shipper(folder) as opened:
        assert opened.ship_all(1)
    return URL


def run(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def told(result: Result, *lines: str) -> list[str]:
    assert result.exit_code == 0, result.output
    return [line for line in result.stdout.splitlines() if not any(each in line for each in lines)]


COMMANDS = (
    ("inspect", "frames", "{}", "--json"),
    ("inspect", "exchanges", "{}", "--json"),
    ("inspect", "records", "{}", "--json"),
    ("inspect", "topics", "{}", "--json"),
    ("inspect", "latency", "{}", "--json"),
    ("inspect", "clients", "{}", "--json"),
    ("inspect", "errors", "{}", "--json"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_shipped_capture_is_listed_as_its_folder(url: str, folder: Path, command: tuple[str, ...]) -> None:
    here = run(*(word.format(folder) for word in command))
    there = run(*(word.format(url) for word in command))
    assert told(there) == told(here)


def test_spark_answers_of_a_bucket_what_it_answers_of_the_folder(url: str, folder: Path, tmp_path: Path) -> None:
    by_spark = ["--engine", "spark"]
    query = "select api, count(*) as n, sum(request_size) as b from exchanges group by api order by api"
    assert told(run("sql", url, query, *by_spark)) == told(run("sql", folder, query, *by_spark))
    report, tables = tmp_path / "report.md", tmp_path / "tables"
    told(run("report", url, "-o", report, *by_spark))
    told(run("analyze", url, "--table", "exchanges", "--out", tables, *by_spark))
    assert report.stat().st_size
    assert (tables / "_SUCCESS").exists()


def test_python_reads_a_shipped_capture_with_the_facts_that_are_there(url: str, folder: Path) -> None:
    here, there = recorder.open(str(folder)), recorder.open(url)
    assert there.frames.count_rows() == here.frames.count_rows() > 0
    assert [str(one) for one in there.exchanges()] == [str(one) for one in here.exchanges()]
    for table in ("partitions", "frames", "group_steps"):
        assert there.facts(table).count_rows() == here.facts(table).count_rows()
    # the bucket's facts count, so none are made
    assert not [note for note in there.notes if "made" in note]


def test_a_shipped_capture_is_replayed_as_its_folder(url: str, folder: Path, tmp_path: Path) -> None:
    outcomes = []
    with MockCluster(1) as target:
        for place in (folder, url):
            done = run("replay", place, "--to", target.bootstrap, "--create-topics", "--dry-run")
            outcomes.append((done.exit_code, done.stdout.replace(str(place), "CAPTURE").split()))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] == 0
