"""Kroxylicious, the Java proxy, as a contender: one virtual cluster, a port for each broker, no filters.

Its jars come from Maven into the user's cache, checked as Kafka's are. Nothing is logged for a frame; its heap is what
a container of a gigabyte leaves it. It is slow until its code is compiled: warm it up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.processes import HERE, Child, running
from tests.brokers.jars import Artifact, installed, java
from tests.brokers.ports import reserved_range

# the newest one that Maven Central serves
VERSION = "0.12.0"
HOST = "127.0.0.1"
JVM = ("-Xms512m", "-Xmx512m")

# ids that a virtual cluster has ports for: from 0 on
MAX_NODES = 4

_METRICS = """
management: {{bindAddress: {host}, port: {admin}, endpoints: {{prometheus: {{}}}}}}"""
_SETTINGS = """
virtualClusters:
- name: bench
  targetCluster: {{bootstrapServers: "{upstream}"}}
  gateways:
  - name: bench
    portIdentifiesNode:
      bootstrapAddress: "{host}:{port}"
      nodeIdRanges: [{{name: all, start: 0, end: {last}}}]
  logNetwork: false
  logFrames: false
"""


def jars() -> Path:
    """The folder that holds them. RuntimeError says why they can't be had."""
    artifact = Artifact("io.kroxylicious:kroxylicious-runtime", VERSION)
    home = installed(f"kroxylicious-{VERSION}", (artifact,), HERE / f"kroxylicious-{VERSION}.sha256")
    return home / "libs"


@contextmanager
def started(upstream: str, folder: Path, *, metrics: bool) -> Iterator[Child]:
    """It, between here and `upstream` ("host:port"); its child's line says where it listens.

    Args:
        metrics: whether it has its Prometheus endpoint, and so counts.

    RuntimeError: it can't be had.
    """
    libs = jars()
    with reserved_range((HOST,), MAX_NODES + 2) as port:
        name = "kroxylicious" if metrics else "kroxylicious-unmeasured"
        settings = folder / f"{name}.yaml"
        admin, last = port + MAX_NODES + 1, MAX_NODES - 1
        text = _METRICS * metrics + _SETTINGS
        settings.write_text(text.format(host=HOST, admin=admin, upstream=upstream, port=port, last=last))
        program = (java(), *JVM, "-cp", f"{libs}{os.sep}*", HERE / "Kroxylicious.java")
        command: list[str | Path] = [*program, settings, f"{HOST}:{port}"]
        with running(command, folder / f"{name}.log", r"listening on (\S+):(\d+)") as child:
            yield child
