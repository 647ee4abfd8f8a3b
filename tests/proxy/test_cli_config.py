"""Tests of a file of settings."""

from __future__ import annotations

import logging
from typing import Any

from proxy.config import ProxySettings
from proxy.log import JsonFormatter
from proxy.net.brokers.node_ports import bind
from proxy.schema.addresses import Address
from tests.proxy.cli_runs import bad, proxy


def test_a_file_says_what_flags_say_and_flags_win(run, file):
    assert proxy("--config", file, "--upstream", "b2:9092", "--metrics", "127.0.0.1:0").exit_code == 0
    (settings,) = run.settings
    (cluster,) = settings.clusters
    assert (cluster.name, cluster.upstream) == ("east", (Address("b2", 9092),))
    assert (settings.drain_seconds, settings.metrics) == (3, Address("127.0.0.1", 0))


def test_the_environment_names_the_file_and_wins_over_it(run, file, monkeypatch):
    monkeypatch.setenv("KAFKA_WIRETAP_CONFIG", str(file))
    monkeypatch.setenv("KAFKA_WIRETAP_DRAIN", "4")
    assert proxy().exit_code == 0
    assert run.settings[-1].drain_seconds == 4


def test_the_proxy_prints_a_line_for_each_error(run, file):
    file.write_text('drian = 3\n[clusters.east]\nupstream = "b1"\n')
    result = proxy("--config", file)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("kafka-wiretap: ") and "right would be" in line for line in lines)
    assert run.settings == []


def test_a_failed_start_is_worded_as_the_files_keys(file):
    with bind(Address("127.0.0.1", 0)) as sock:
        busy = f"127.0.0.1:{sock.getsockname()[1]}"
        file.write_text(f'[clusters.east]\nupstream = "b1:9092"\nlisten = "{busy}"\nnode_count = 0\n')
        line = bad(["--config", file], f'clusters.east.listen = "{busy}" can\'t be had (Address already in use)')
    assert line.endswith('for example listen = "127.0.0.1:19092"')


def test_an_unreadable_state_file_is_reported_before_a_capture_begins(file, tmp_path):
    (tmp_path / "nodes.json").write_text("not json")
    with file.open("a") as settings:
        settings.write(f'state = "{tmp_path}/nodes.json"\n[capture]\nfolder = "{tmp_path}/capture"\n')
    bad(["--config", file], f'clusters.east.state = "{tmp_path}/nodes.json" can\'t be read')
    assert not (tmp_path / "capture").exists()


def test_each_cluster_says_where_it_listens(monkeypatch, file):
    def run(settings: ProxySettings, observer: Any, child: Any, ready: Any, *others: Any) -> int:
        ready({cluster.name: cluster.listen for cluster in settings.clusters}, None)
        return 0

    monkeypatch.setattr("proxy.net.Proxy", run)
    monkeypatch.setattr("proxy.net.run", lambda code: code)
    with file.open("a") as settings:
        settings.write('[clusters.west]\nupstream = "b1:9092"\nlisten = "127.0.0.2:0"\n')
    assert proxy("--config", file).stderr == "listening on 127.0.0.1:0 for east\nlistening on 127.0.0.2:0 for west\n"


def test_a_capture_is_of_one_cluster_or_its_connections_say_of_which(run, file, tmp_path):
    with file.open("a") as settings:
        settings.write(f'[capture]\nfolder = "{tmp_path}/capture"\ncompactor = false\n')
    assert proxy("--config", file).exit_code == 0
    assert run.observer.settings.cluster == "east"
    assert run.child is None
    with file.open("a") as settings:
        settings.write('[clusters.west]\nupstream = "b1:9092"\nlisten = "127.0.0.2:0"\n')
    assert proxy("--config", file).exit_code == 0
    assert run.observer.settings.cluster is None


def test_the_log_is_written_as_the_settings_say(run, file):
    with file.open("a") as settings:
        settings.write('[log]\nlevel = "warning"\nformat = "json"\n')
    assert proxy("--config", file).exit_code == 0
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler.formatter, JsonFormatter)
    assert logging.getLogger("kafka-wiretap").level == logging.WARNING
