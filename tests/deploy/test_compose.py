"""Tests of deploy/compose: a right file whose services fit together. No container is started."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from proxy.cli import main as cli
from proxy.settings.load import load
from tests.deploy.manifests import is_known_to_alerts, unknown_to_kafka
from tests.programs import program

FOLDER = Path(__file__).parents[2] / "deploy" / "compose"
SERVICES: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
PROXY = SERVICES["kafka-wiretap"]


def mounts(service: str) -> dict[str, Path]:
    """Path in the container -> file or folder here, of those that are no named volumes."""
    told = [volume.split(":") for volume in SERVICES[service].get("volumes", ()) if volume.startswith(".")]
    return {inside: (FOLDER / source).resolve() for source, inside, *_ in told}


def published(service: str) -> set[int]:
    """The ports that are the same here and in the container."""
    ports = [port.split(":") for port in SERVICES[service]["ports"]]
    assert all(host == "127.0.0.1" and outer == inner for host, outer, inner in ports)
    return {int(inner) for _, _, inner in ports}


@pytest.mark.real
def test_the_file_is_one_by_the_compose_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, FOLDER / "compose.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_mounted_is_in_the_project(service: str) -> None:
    assert [str(path) for path in mounts(service).values() if not path.exists()] == []


def test_the_proxys_settings_are_right() -> None:
    start, flag, inside = PROXY["command"]
    assert (start, flag) == ("proxy", "--config")
    done = CliRunner().invoke(cli, ["config", "check", str(mounts("kafka-wiretap")[inside])])
    assert done.exit_code == 0, done.output


def test_clients_on_this_machine_reach_every_address_that_they_are_told() -> None:
    settings = load(FOLDER / "wiretap.toml", environment={})
    (cluster,) = settings.proxy.clusters
    kafka = SERVICES["kafka"]["environment"]
    wanted = cluster.node_map.wanted_listener(int(kafka["KAFKA_NODE_ID"]))
    assert wanted is not None
    assert published("kafka-wiretap") == {cluster.listen.port, wanted.ports[0]}
    assert cluster.node_map.advertised_bootstrap(cluster.listen).host == "localhost"
    assert f"CLIENTS://{cluster.upstream[0]}" == kafka["KAFKA_ADVERTISED_LISTENERS"]


def test_the_broker_is_told_what_kafka_knows() -> None:
    assert unknown_to_kafka(SERVICES["kafka"]["environment"]) == []


def test_prometheus_reads_the_proxys_metrics_and_grafana_asks_prometheus() -> None:
    metrics = load(FOLDER / "wiretap.toml", environment={}).proxy.metrics
    assert metrics is not None
    (job,) = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"kafka-wiretap:{metrics.port}"]}]
    assert is_known_to_alerts(job["job_name"])
    (source,) = yaml.safe_load((FOLDER / "grafana" / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (port,) = published("prometheus")
    assert source["url"] == f"http://prometheus:{port}"


def test_grafana_finds_the_dashboards_in_the_folder_that_is_mounted() -> None:
    (provider,) = yaml.safe_load((FOLDER / "grafana" / "dashboards" / "kafka-wiretap.yaml").read_text())["providers"]
    folder = mounts("grafana")[provider["options"]["path"]]
    assert list(folder.glob("*.json"))
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert (folder / home.name).is_file()


@pytest.mark.real
def test_prometheus_takes_its_configuration_with_the_alerts(tmp_path: Path) -> None:
    for inside, source in mounts("prometheus").items():
        shutil.copy(source, tmp_path / Path(inside).name)
    done = subprocess.run(
        [program("promtool"), "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # the alerts were found and read
    assert "rules found" in done.stdout
