"""What Kustomize makes of deploy/kubernetes, and what Kubernetes makes of that: a command and its environment."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from proxy.wire.plain_settings import PLAIN_SETTINGS
from tests.programs import program

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "deploy" / "kubernetes"
EXAMPLES = sorted(path.name for path in (FOLDER / "examples").iterdir())
SETTINGS = "wiretap.toml"
POD_INDEX = "metadata.labels['apps.kubernetes.io/pod-index']"


@dataclass(frozen=True, slots=True)
class Proxy:
    """The container of the proxy in an example. `pod`: the specification of its pod; `settings`: the file's text."""

    container: dict[str, Any]
    pod: dict[str, Any]
    settings: str

    def command(self, entry_point: list[str]) -> list[str]:
        """What runs: the image's entry point, unless the container has a command of its own."""
        return [*self.container.get("command", entry_point), *self.container["args"]]

    def environment(self, pod_index: int) -> dict[str, str]:
        """The variables in a pod of this index.

        `$(NAME)` is the value of a variable that stands before; any other text stays, as in Kubernetes.
        """
        told: dict[str, str] = {}
        for variable in self.container["env"]:
            told[variable["name"]] = str(pod_index) if is_pod_index(variable) else filled(variable["value"], told)
        return told


def is_pod_index(variable: dict[str, Any]) -> bool:
    return bool(variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") == POD_INDEX)


def filled(text: str, told: dict[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: told.get(found[1], found[0]), text)


@cache
def rendered(example: str) -> tuple[dict[str, Any], ...]:
    """The resources of an example, as `kubectl apply --kustomize` would send them."""
    command = [program("kubectl"), "kustomize", str(FOLDER / "examples" / example)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def unknown_to_kafka(variables: Iterable[str]) -> list[str]:
    """The variables for Kafka's image that stand for no setting of brokers."""
    names = {each: each.removeprefix("KAFKA_").lower().replace("_", ".") for each in variables}
    return [each for each, name in names.items() if each.startswith("KAFKA_") and name not in PLAIN_SETTINGS]


def is_known_to_alerts(job: str) -> bool:
    """Whether the alerts that look for proxies by the name of the job find those of this one."""
    patterns = re.findall(r'job=~"([^"]+)"', (PROJECT / "dashboards" / "alerts.yml").read_text())
    return bool(patterns) and all(re.fullmatch(pattern, job) for pattern in patterns)


def of_kind(example: str, kind: str) -> Iterator[dict[str, Any]]:
    return (resource for resource in rendered(example) if resource["kind"] == kind)


def proxy_of(example: str) -> Proxy:
    (owner,) = of_kind(example, "StatefulSet")
    pod = owner["spec"]["template"]["spec"]
    (container,) = (each for each in pod["containers"] if each["name"] == "kafka-wiretap")
    (mounted,) = (volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume)
    (settings,) = (each for each in of_kind(example, "ConfigMap") if each["metadata"]["name"] == mounted)
    return Proxy(container, pod, settings["data"][SETTINGS])
