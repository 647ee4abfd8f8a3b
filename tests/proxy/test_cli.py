from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proxy.mapping.ports import PortMap
from proxy.net.state.claims import StateClaims
from proxy.schema.addresses import Address
from proxy.wiring import WORKER_COMMAND
from recorder.capture.session import WhenFull
from tests.proxy.cli_runs import BASIC, cluster_told, proxy, told


def test_a_minimal_proxy_listens_on_and_advertises_the_same_host(run):
    settings = told(run)
    (cluster,) = settings.clusters
    assert cluster.name == "main"
    assert cluster.upstream == (Address("b1", 9092), Address("b2", 9093))
    assert cluster.listen == Address("127.0.0.1", 0)
    assert settings.metrics is None
    assert cluster.state is None
    assert settings.drain_seconds == 10
    assert run.observer is None
    assert run.child is None


def test_every_flag_reaches_the_settings(run, tmp_path):
    state = tmp_path / "nodes.json"
    settings = told(
        run, "--advertise", "proxy.example.org", "--node-ports", 19100, "--node-count", 50, "--state", state,
        "--node", "1=127.0.0.1:9094", "--node", "2=127.0.0.1:0", "--metrics", "127.0.0.1:9464", "--drain", 3.5,
    )  # fmt: skip
    (cluster,) = settings.clusters
    assert cluster.advertise == "proxy.example.org"
    assert cluster.node_map.usual_ports == range(19100, 19150)
    assert cluster.nodes == {1: Address("127.0.0.1", 9094), 2: Address("127.0.0.1", 0)}
    assert cluster.state == state
    assert settings.metrics == Address("127.0.0.1", 9464)
    assert settings.drain_seconds == 3.5


def test_ports_of_the_state_file_are_remembered(run, tmp_path):
    state = tmp_path / "nodes.json"
    nodes = {"1": {"upstream": "b1:9092", "port": 40123}, "2": {"upstream": "b2:9092"}}
    state.write_text(json.dumps({"format": 1, "nodes": nodes}))
    node_map = cluster_told(run, "--state", state).node_map
    assert isinstance(node_map, PortMap)
    assert node_map.remembered == {1: 40123}


def test_the_proxy_prints_where_it_listens(run):
    result = proxy(*BASIC)
    assert result.stderr == "listening on 127.0.0.1:9092\nmetrics on http://127.0.0.1:9464/metrics\n"
    assert result.stdout == ""


def test_the_exit_code_is_the_runs(run):
    run.code = 1
    assert proxy(*BASIC).exit_code == 1


def test_recording_opens_a_tap_and_its_compactor(run, tmp_path):
    folder = tmp_path / "capture"
    cluster = cluster_told(run, "--record", folder, "--record-queue", "1MiB", "--record-when-full", "wait")
    assert cluster.state == folder / "_nodes.json"
    assert run.observer.settings.queue == 1024 * 1024
    assert run.observer.settings.when_full is WhenFull.WAIT
    assert run.child is not None
    # -P: a module of that name in the current folder is another one
    assert run.child[:4] == [sys.executable, "-P", "-m", "recorder.capture.compactor"]
    assert run.observer.session in run.child


def test_several_workers_each_record_with_their_part(run, monkeypatch, tmp_path):
    heard: list[tuple[Any, ...]] = []

    def noted(*told: Any) -> int:
        heard.append(told)
        return 0

    monkeypatch.setattr("proxy.net.workers.Parent", noted)
    folder = tmp_path / "capture"
    sizes = ("--record-queue", "3MiB", "--record-spool", "1GiB")
    assert proxy(*BASIC, "--workers", 3, "--record", folder, *sizes).exit_code == 0
    ((settings, command, recording, _, reload, released, _),) = heard
    assert run.settings == []
    assert settings.workers == 3
    assert command == WORKER_COMMAND
    assert (recording.folder, recording.queue, recording.spool) == (folder, 1 << 20, -(-(1 << 30) // 3))
    assert reload().settings.workers == 3
    assert (folder / "_nodes.json.lock").exists()
    released()
    assert not (folder / "_nodes.json.lock").exists()


def test_several_workers_need_a_capture_that_can_be_written(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = proxy(*BASIC, "--workers", 2, "--record", tmp_path / "file" / "capture")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"kafka-wiretap: --record {tmp_path}")


@pytest.mark.real
def test_a_proxy_that_does_not_record_starts_without_the_recorder():
    script = (
        "import sys; from proxy import cli, net; net.run = lambda *a: 0\n"
        "try: cli.main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('recorder', 'pyarrow', 'pyspark', 'rich')])"
    )
    done = subprocess.run([sys.executable, "-c", script, "proxy", *BASIC], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_second_proxy_that_records_in_a_folder_keeps_its_nodes_in_a_file_of_its_own(run, tmp_path):
    folder = tmp_path / "capture"
    first = StateClaims(told(run, "--record", folder))
    assert cluster_told(run, "--record", folder).state == folder / "_nodes.2.json"
    first.release()
    assert cluster_told(run, "--record", folder).state == folder / "_nodes.json"


def test_paths_reach_the_settings_as_paths(run, tmp_path):
    assert isinstance(cluster_told(run, "--state", tmp_path / "n.json").state, Path)
