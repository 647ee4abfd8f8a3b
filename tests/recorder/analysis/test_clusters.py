"""Tests that threads, executor processes and a standalone cluster give the same answers, by both roads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.wire.keys import FETCH, HEARTBEAT, METADATA, PRODUCE
from tests.recorder.analysis.by_exchange import Talk, batch
from tests.recorder.analysis.conftest import write_frames
from tests.recorder.analysis.standalone import SPARK_HOME, standalone
from tests.s3 import Store

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
MASTERS = ["local[2]", "local-cluster[2,1,1024]", "standalone"]
REQUESTS = {"Produce": 100, "Fetch": 100, "Heartbeat": 100, "Metadata": 1}
SMALL = {"spark.executor.memory": "512m"}
# prints, in a line for each road, all answers of `analyze` and the rows of two tables
PROGRAM = """
import json, sys
from dataclasses import asdict
from recorder.analysis import job, sources
from recorder.analysis.bodies import Road
from recorder.analysis.report import report

master, folder, file = sys.argv[1:]
with job.session(master, extra={"spark.executor.memory": "512m"}) as spark:
    for road in (Road.WORKER, Road.JVM):
        captured = sources.captured(spark, folder, {"frames": [file], "events": []}, road=road)
        told = asdict(report(captured))
        rows = {name: sources.load(captured, name).collect() for name in ("topic_partitions", "records")}
        told |= {name: [row.asDict() for row in some] for name, some in rows.items()}
        for some in told.values():
            if isinstance(some, list):
                some.sort(key=lambda row: json.dumps(row, default=str, sort_keys=True))
        print(json.dumps(told, default=str, sort_keys=True))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of three hundred exchanges in several row groups; some of them hold errors."""
    found = tmp_path_factory.mktemp("capture")
    talk, records = Talk(), batch(20)
    rows = []
    done = {"responses": [{"name": "orders", "partition_responses": [{"index": 0}]}]}
    named = {"cluster_id": "c", "topics": [{"name": "orders", "partitions": [{}]}]}
    for number in range(100):
        partition = {"index": 0, "records": records}
        written = {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
        told = {"partition_index": 0, "high_watermark": 20, "records": records}
        read = {"responses": [{"topic": "orders", "partitions": [told]}]}
        rows += talk.exchange(PRODUCE, 8, number, written, done)
        rows += talk.exchange(FETCH, 11, number, {"topics": [{"topic": "orders", "partitions": [{}]}]}, read)
        rows += talk.exchange(HEARTBEAT, 4, number, {"group_id": "g"}, {"error_code": 25 if number % 10 == 0 else 0})
    rows += talk.exchange(METADATA, 9, 1, {"topics": None}, named)
    write_frames(found, rows, 60)
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture(scope="module")
def expected(folder: Path) -> str:
    """The answers of one thread."""
    worker, jvm = answers("local[1]", folder)
    assert worker == jvm
    return worker


def answers(master: str, folder: Path) -> list[str]:
    """The answers of another process, by either road."""
    (file,) = folder.glob("frames/*/*/*.parquet")
    command = [sys.executable, "-c", PROGRAM, master, str(folder), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("master", MASTERS)
def test_every_master_gives_the_same_answers_by_both_roads(
    master: str, folder: Path, expected: str, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue("cluster") if master == "standalone" else master
    assert answers(address, folder) == [expected] * 2
    told = json.loads(expected)
    assert {row["api"]: row["requests"] for row in told["latency_by_api"]} == REQUESTS
    assert (len(told["records"]), [row["count"] for row in told["errors_by_api"]]) == (4000, [10])


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The file that `kafka-wiretap spark-package` writes."""
    program = "from recorder.submitting import spark_package; spark_package()"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "package")], check=True, capture_output=True)
    return tmp_path / "package"


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["by its path", "by its URL"])
def test_spark_submit_runs_the_package_alone(cluster: str, folder: Path, package: Path, scheme: str) -> None:
    """The command gets neither master nor settings: it takes those of `spark-submit`."""
    found = submitted(package, cluster, "analyze", f"{scheme}{folder}", "--format", "json")
    assert found.returncode == 0, found.stderr
    assert {row["api"]: row["requests"] for row in json.loads(found.stdout)["latency_by_api"]} == REQUESTS
    assert "Connected to Spark cluster with app ID" in found.stderr


def test_spark_submit_prints_the_error_with_the_same_exit_code(cluster: str, package: Path) -> None:
    """`spark-submit` copies a program's errors to its standard output."""
    found = submitted(package, cluster, "analyze", str(package / "none"))
    assert found.returncode == 2
    assert found.stdout.startswith(f"Error: {package / 'none'} does not exist: record one with")


def submitted(package: Path, master: str, *arguments: str) -> Any:
    """Returns the output of `spark-submit`; the project is not on Python's path."""
    settings = [part for name, value in SMALL.items() for part in ("--conf", f"{name}={value}")]
    zipped, program = package / "kafka_wiretap.zip", package / "kafka_wiretap_main.py"
    command = [SPARK_HOME / "bin" / "spark-submit", "--master", master, *settings, "--py-files", zipped, program]
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [str(one) for one in (*command, *arguments)], capture_output=True, text=True, env=own, cwd=package, check=False
    )


def run(*words: object) -> str:
    """The output of a command."""
    arguments = [sys.executable, "-P", "-c", "from proxy.cli import main; main()", *map(str, words)]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


ON_CLUSTER = ("--master", "local-cluster[2,1,1024]", "--conf", "spark.executor.memory=512m")
COUNTED = "SELECT side, topic, count(*) AS n FROM topic_partitions GROUP BY side, topic ORDER BY side, topic"


@pytest.fixture
def several(folder: Path, tmp_path: Path) -> Path:
    """The capture twice, in files of two names."""
    found = Path(shutil.copytree(folder, tmp_path / "capture"))
    (file,) = found.glob("frames/**/*.parquet")
    shutil.copyfile(file, file.with_name("s-2-2.parquet"))
    return found


def facts_of(capture: Path) -> dict[str, bytes]:
    every = (path for path in (capture / "facts").rglob("*") if path.is_file())
    return {str(path.relative_to(capture)): path.read_bytes() for path in every}


def test_tasks_of_a_cluster_make_the_facts_that_a_process_makes(several: Path) -> None:
    run("facts", several, "--processes", 1)
    alone = facts_of(several)
    shutil.rmtree(several / "facts")
    assert json.loads(run("facts", several, *ON_CLUSTER, "--json"))["made"] == 2
    assert facts_of(several) == alone


def test_a_cluster_makes_and_reads_facts_in_a_bucket(s3: Store, several: Path) -> None:
    here = run("sql", several, COUNTED, "--format", "csv")
    url = s3.put(several, "clustered")
    # its facts are still to be made
    for name in s3.content("clustered/kept/facts"):
        s3.system().delete_file(f"clustered/kept/{name}")
    run("facts", url, *ON_CLUSTER)
    assert s3.content("clustered/kept/facts") == facts_of(several)
    assert run("sql", url, COUNTED, "--format", "csv", *ON_CLUSTER) == here
    # no frame is opened: there is none any more
    for name, content in s3.content("clustered/kept/frames").items():
        s3.write(f"clustered/kept/{name}", bytes(len(content)))
    assert run("sql", url, COUNTED, "--format", "csv", *ON_CLUSTER) == here
