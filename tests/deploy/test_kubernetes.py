"""Tests of deploy/kubernetes: what Kustomize makes of each example is valid, and its parts fit together."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from proxy.cli import main as cli
from proxy.mapping.nodes import NodeMap
from proxy.schema.addresses import Address
from proxy.settings.load import LoadedSettings, load
from tests.certificates import Authority
from tests.deploy.manifests import (
    EXAMPLES,
    FOLDER,
    PROJECT,
    SETTINGS,
    Proxy,
    is_known_to_alerts,
    of_kind,
    proxy_of,
    rendered,
    unknown_to_kafka,
)

pytestmark = pytest.mark.real

# the oldest release whose pods know their index, and the newest whose schemas are there
OLDEST, NEWEST = "1.28", kubernetes_validate.latest_version()
# of the Prometheus operator, whose schema Kubernetes does not have
FOREIGN = {"PodMonitor"}
ENTRY_POINT = ["kafka-wiretap"]
SETTINGS_FOLDER, TLS_FOLDER = "/etc/kafka-wiretap", "/etc/kafka-wiretap-tls"
ADMIN = 9464
# bytes of annotations, one of which `kubectl apply` makes of the whole resource
MOST_APPLIED = 256 * 1024
# stands for the program: tells its arguments and its variables
PROGRAM = '#!/bin/sh\necho "$@"\nenv\n'


def settings_file(proxy: Proxy, folder: Path) -> Path:
    """The settings as a file, with certificates at hand in place of the mounted ones."""
    text = proxy.settings
    if TLS_FOLDER in text:
        pem = Authority(folder).signs("proxy").path
        text = text.replace(f"{TLS_FOLDER}/tls.crt", str(pem)).replace(f"{TLS_FOLDER}/tls.key", str(pem))
    (folder / SETTINGS).write_text(text)
    return folder / SETTINGS


def started(proxy: Proxy, folder: Path, pod_index: int) -> tuple[str, dict[str, str]]:
    """The arguments and the variables that the program gets in a pod."""
    stand_in = folder / "kafka-wiretap"
    stand_in.write_text(PROGRAM)
    stand_in.chmod(0o755)
    environment = proxy.environment(pod_index) | {"PATH": f"{folder}{os.pathsep}{os.defpath}"}
    done = subprocess.run(proxy.command(ENTRY_POINT), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    arguments, *variables = done.stdout.splitlines()
    return arguments, dict(line.split("=", 1) for line in variables)


def settings_in(example: str, folder: Path, pod_index: int) -> LoadedSettings:
    proxy = proxy_of(example)
    _, variables = started(proxy, folder, pod_index)
    return load(settings_file(proxy, folder), environment=variables)


def node_map(settings: LoadedSettings) -> NodeMap:
    (cluster,) = settings.proxy.clusters
    return cluster.node_map


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("release", [OLDEST, NEWEST])
def test_every_resource_is_one_that_kubernetes_takes(example: str, release: str) -> None:
    for resource in rendered(example):
        if resource["kind"] not in FOREIGN:
            kubernetes_validate.validate(resource, release, strict=True)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_settings_of_every_pod_are_right(example: str, tmp_path: Path) -> None:
    proxy = proxy_of(example)
    arguments, variables = started(proxy, tmp_path, 2)
    assert arguments == f"proxy --config {SETTINGS_FOLDER}/{SETTINGS}"
    file = settings_file(proxy, tmp_path)
    done = CliRunner().invoke(cli, ["config", "check", str(file)], env=variables)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_is_mounted_read_and_probed_is_there(example: str, tmp_path: Path) -> None:
    proxy = proxy_of(example)
    (owner,) = of_kind(example, "StatefulSet")
    claims = {each["metadata"]["name"] for each in owner["spec"].get("volumeClaimTemplates", ())}
    mounts = {each["mountPath"]: each for each in proxy.container["volumeMounts"]}
    assert {each["name"] for each in mounts.values()} <= claims | {each["name"] for each in proxy.pod["volumes"]}
    settings = settings_in(example, tmp_path, 0)
    # all that is written lies on a volume, because the image's own files can't be written
    written = [settings.proxy.clusters[0].state, *([settings.capture.folder] if settings.capture else ())]
    writable = {path for path, mount in mounts.items() if not mount.get("readOnly")}
    assert {str(path) for each in written if each for path in each.parents} & writable == writable
    ports = {each["name"]: each["containerPort"] for each in proxy.container["ports"]}
    assert settings.proxy.metrics is not None
    assert (settings.proxy.metrics.host, settings.proxy.metrics.port) == ("0.0.0.0", ports["wiretap-admin"])
    assert settings.proxy.clusters[0].listen.port == ports["kafka"]
    probes = [proxy.container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert [probe["path"] for probe in probes] == ["/livez", "/livez", "/readyz"]
    assert {probe["port"] for probe in probes} == {"wiretap-admin"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_proxy_may_do_nothing_that_it_does_not_need(example: str) -> None:
    context = proxy_of(example).container["securityContext"]
    assert (context["runAsNonRoot"], context["readOnlyRootFilesystem"]) == (True, True)
    assert (context["allowPrivilegeEscalation"], context["capabilities"]) == (False, {"drop": ["ALL"]})


@pytest.mark.parametrize("example", EXAMPLES)
def test_policies_budgets_and_monitors_are_about_the_pods_that_have_the_proxy(example: str) -> None:
    (owner,) = of_kind(example, "StatefulSet")
    labels = owner["spec"]["template"]["metadata"]["labels"].items()
    for kind in ("NetworkPolicy", "PodDisruptionBudget", "PodMonitor"):
        for resource in of_kind(example, kind):
            selector = resource["spec"].get("selector") or resource["spec"]["podSelector"]
            assert selector["matchLabels"].items() <= labels, kind
    for service in of_kind(example, "Service"):
        assert service["spec"]["selector"].items() <= labels
    monitored = [each["port"] for one in of_kind(example, "PodMonitor") for each in one["spec"]["podMetricsEndpoints"]]
    assert set(monitored) <= {port["name"] for port in proxy_of(example).container["ports"]}


@pytest.mark.parametrize("example", ["front", "sidecar", "strimzi"])
def test_the_alerts_know_the_job_that_scrapes_the_pods(example: str) -> None:
    (monitor,) = of_kind(example, "PodMonitor")
    for endpoint in monitor["spec"]["podMetricsEndpoints"]:
        (job,) = (each["replacement"] for each in endpoint["relabelings"] if each["targetLabel"] == "job")
        assert is_known_to_alerts(job)


@pytest.mark.parametrize("example", ["front", "sidecar", "strimzi"])
def test_each_dashboard_is_a_config_map_that_grafana_looks_for_and_apply_can_send(example: str) -> None:
    made = [each for each in of_kind(example, "ConfigMap") if "grafana_dashboard" in each["metadata"].get("labels", {})]
    files = {path.name: path.read_text() for path in (PROJECT / "dashboards").glob("*.json")}
    assert {name: text for each in made for name, text in each["data"].items()} == files
    assert all(len(yaml.safe_dump(each)) < MOST_APPLIED for each in made)


@pytest.mark.parametrize("example", EXAMPLES)
def test_only_prometheus_reaches_the_admin_page_and_every_other_port_stays_open(example: str) -> None:
    (policy,) = of_kind(example, "NetworkPolicy")
    everybody, prometheus = policy["spec"]["ingress"]
    open_ports = [range(each["port"], each["endPort"] + 1) for each in everybody["ports"] if each["protocol"] == "TCP"]
    assert [port for port in range(1, 65536) if not any(port in each for each in open_ports)] == [ADMIN]
    assert "from" not in everybody
    assert [each["port"] for each in prometheus["ports"]] == [ADMIN]
    assert "from" in prometheus


@pytest.mark.parametrize("example", EXAMPLES)
def test_brokers_in_the_same_pod_have_one_budget_at_most(example: str) -> None:
    """A pod that two budgets are about is never evicted."""
    assert len(list(of_kind(example, "PodDisruptionBudget"))) == (example != "sidecar")


def test_a_sidecar_stands_for_the_broker_of_its_pod_under_the_name_that_this_advertises(tmp_path: Path) -> None:
    (owner,) = of_kind("sidecar", "StatefulSet")
    (broker,) = (each for each in owner["spec"]["template"]["spec"]["containers"] if each["name"] == "broker")
    said = {each["name"]: each.get("value", "") for each in broker["env"]}
    for index in range(owner["spec"]["replicas"]):
        nodes = node_map(settings_in("sidecar", tmp_path, index))
        assert nodes.own_node == index
        advertised = said["KAFKA_ADVERTISED_LISTENERS"].replace("$(POD_NAME)", f"kafka-{index}")
        assert f"CLIENTS://{nodes.advertised(index, None)}," in advertised
    (cluster,) = settings_in("sidecar", tmp_path, 0).proxy.clusters
    listeners = said["KAFKA_LISTENERS"].split(",")
    assert listeners[0] == f"CLIENTS://{cluster.upstream[0]}"


def test_a_broker_listens_where_its_proxy_will_before_there_is_one() -> None:
    """So a client that is told the address of a node reaches it, whether its pod has a proxy already or not."""
    brokers = next(
        each
        for each in yaml.safe_load_all((FOLDER / "examples" / "sidecar" / "brokers.yaml").read_text())
        if each["kind"] == "StatefulSet"
    )
    (broker,) = brokers["spec"]["template"]["spec"]["containers"]
    said = {each["name"]: each.get("value", "") for each in broker["env"]}
    (kafka,) = (port["containerPort"] for port in proxy_of("sidecar").container["ports"] if port["name"] == "kafka")
    assert said["KAFKA_LISTENERS"].startswith(f"CLIENTS://:{kafka},")


def test_the_example_of_a_broker_sets_what_kafka_knows() -> None:
    (owner,) = of_kind("sidecar", "StatefulSet")
    (broker,) = (each for each in owner["spec"]["template"]["spec"]["containers"] if each["name"] == "broker")
    assert unknown_to_kafka(each["name"] for each in broker["env"]) == []


def test_with_strimzi_each_proxy_has_its_broker_and_the_name_that_this_broker_advertises(tmp_path: Path) -> None:
    kafka = yaml.safe_load((FOLDER / "examples" / "strimzi" / "listener.yaml").read_text())
    (listener,) = kafka["spec"]["kafka"]["listeners"]
    (owner,) = of_kind("strimzi", "StatefulSet")
    first = owner["spec"]["ordinals"]["start"]
    told: list[dict[str, Any]] = []
    for index in range(first, first + owner["spec"]["replicas"]):
        settings = settings_in("strimzi", tmp_path, index)
        nodes = node_map(settings)
        assert nodes.own_node == index
        address = nodes.advertised(index, None)
        told.append({"broker": index, "advertisedHost": address.host, "advertisedPort": address.port})
        # the pods' own names, which their Service leads to
        assert address.host.startswith(f"{owner['metadata']['name']}-{index}.{owner['spec']['serviceName']}.")
        assert [str(each) for each in settings.proxy.clusters[0].upstream] == [
            f"orders-brokers-{index}.orders-kafka-brokers.kafka.svc:{listener['port']}"
        ]
    assert told == listener["configuration"]["brokers"]


def test_ids_that_do_not_begin_at_zero_are_counted_from_the_first(tmp_path: Path) -> None:
    proxy = proxy_of("sidecar")
    for variable in proxy.container["env"]:
        if variable["name"] == "FIRST_NODE_ID":
            shifted = {**variable, "value": "2147483600"}
    changed = {**proxy.container, "env": [each for each in proxy.container["env"] if each["name"] != "FIRST_NODE_ID"]}
    _, variables = started(Proxy({**changed, "env": [*changed["env"], shifted]}, proxy.pod, ""), tmp_path, 47)
    assert variables["KAFKA_WIRETAP_CLUSTERS__MAIN__OWN_NODE"] == "2147483647"


def test_clients_outside_are_told_the_node_port_that_leads_to_the_nodes_listener(tmp_path: Path) -> None:
    settings = settings_in("node-ports", tmp_path, 0)
    nodes = node_map(settings)
    (outside,) = (each for each in of_kind("node-ports", "Service") if each["spec"].get("type") == "NodePort")
    led = {each["name"]: each for each in outside["spec"]["ports"]}
    assert led.pop("bootstrap")["targetPort"] == "kafka"
    for name, port in led.items():
        node = int(name.removeprefix("node-"))
        wanted = nodes.wanted_listener(node)
        assert wanted is not None
        assert wanted.ports[0] == port["targetPort"]
        assert nodes.advertised(node, port["targetPort"]) == Address("kafka.example.org", port["nodePort"])


def test_server_names_tell_nodes_of_any_id_apart_on_the_balancers_port(tmp_path: Path) -> None:
    nodes = node_map(settings_in("server-names", tmp_path, 0))
    (outside,) = (each for each in of_kind("server-names", "Service") if each["spec"].get("type") == "LoadBalancer")
    (port,) = outside["spec"]["ports"]
    assert (port["targetPort"], nodes.advertised(2**31 - 1, None).port) == ("kafka", port["port"])
    assert nodes.requested_node(None, "broker-2147483647.kafka.example.org") == 2**31 - 1
