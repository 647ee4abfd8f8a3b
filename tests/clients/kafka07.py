"""Kafka 0.7 behind a live proxy: two equal brokers, the recording proxy, and samsa, a client of that time.

samsa is Python 2, so it runs on Jython. Its source comes from PyPI and Jython from Maven Central, once, into the user's
cache; both are compared with the sums here and in `jython-….sha256`. The source runs unchanged: `samsa_client.py`
provides the one part of Python 2 that Jython lacks.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.brokers.jars import Artifact, cache_folder, installed, java, locked
from tests.brokers.kafka07 import Kafka07Broker
from tests.faults.live import LiveProxy

NAMES = ["0.7/produce", "0.7/fetch", "0.7/multifetch", "0.7/multiproduce", "0.7/offsets"]
# both brokers' clock, in ms since 1970
NOW = 1_321_825_000_000
JYTHON = Artifact("org.python:jython-standalone", "2.7.4")
SAMSA = "samsa-0.3.11"
SAMSA_PINNED = "samsa==0.3.11 --hash=sha256:db57d2e88213afbc4e02fb3df62f02a61452cd911a9fd69f7079bc0db4904889\n"
PROGRAM = Path(__file__).parent / "workloads" / "samsa_client.py"
SAMSA_SECONDS = 600


@contextmanager
def brokers() -> Iterator[tuple[Kafka07Broker, Kafka07Broker]]:
    """Two equal brokers: one behind the proxy, one to compare with."""
    with Kafka07Broker(partitions=4, now=NOW) as one, Kafka07Broker(partitions=4, now=NOW) as other:
        yield one, other


@contextmanager
def recording(broker: Kafka07Broker, folder: Path, *more: str) -> Iterator[LiveProxy]:
    """A proxy before the broker; its capture is `folder / "capture"`."""
    settings = folder / "wiretap.toml"
    settings.write_text('[clusters.main]\ndialect = "kafka-0.7"\n')
    proxy = LiveProxy(broker.address, folder / "capture", folder / "output", "--config", str(settings), *more)
    try:
        yield proxy
    finally:
        assert proxy.stop() == 0


def talk_of_samsa(*ports: int) -> list[list[dict[str, Any]]]:
    """samsa's calls to each of these ports on loopback, one after the other, and their results."""
    (jython,) = _jython().glob("libs/*.jar")
    # one core, a small heap, and no cache beside the jar
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dpython.cachedir.skip=true"]
    command = [java(), *options, "-jar", str(jython), str(PROGRAM), str(_samsa()), *map(str, ports)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SAMSA_SECONDS)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _jython() -> Path:
    name = f"jython-{JYTHON.version}"
    return installed(name, (JYTHON,), Path(__file__).with_name(f"{name}.sha256"))


@cache
def _samsa() -> Path:
    """The folder of its source. pip checks the sum before it unpacks anything."""
    folder = cache_folder() / SAMSA
    with locked("samsa"), tempfile.TemporaryDirectory(prefix=".samsa-", dir=cache_folder()) as scratch:
        if not folder.is_dir():
            pinned = Path(scratch, "pinned.txt")
            pinned.write_text(SAMSA_PINNED)
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
            pip += ["--no-binary", ":all:", "--require-hashes", "--dest", scratch, "--requirement", str(pinned)]
            subprocess.run(pip, check=True)
            with tarfile.open(Path(scratch, f"{SAMSA}.tar.gz")) as archive:
                # Python 3.11 has filters from 3.11.4 on
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(scratch)
            Path(scratch, SAMSA).rename(folder)
    return folder
