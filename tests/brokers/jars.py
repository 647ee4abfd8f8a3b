"""Provides Apache Kafka from its Maven artifacts, without a distribution or a container.

`kafka_home()` is a folder whose `libs/` holds all of Kafka: broker, command line tools, logging. KAFKA_HOME may name
an unpacked distribution instead. Otherwise Maven copies the jars into the user's cache, once. Each jar is
compared with the list of names and SHA-256 sums beside this file, and the folder gets its final name only if all match.
`kafka_home(release)` provides the other releases of `RELEASES`, for which KAFKA_HOME is ignored.

`clients_jar(version)` is the `kafka-clients` jar of a release in `kafka-clients.sha256`, for tests that compare with
Kafka's own code. These jars are cached and checked likewise, one by one; KAFKA_HOME is ignored.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

# the newest release that Maven Central has completely
VERSION = "4.3.1"
CLIENTS_SUMS = Path(__file__).with_name("kafka-clients.sha256")


class Artifact(NamedTuple):
    """An artifact for Maven, as "group:name". `without`: its dependencies that can't be had, or must not be used."""

    name: str
    version: str
    without: tuple[str, ...] = ()


# log4j 1.2 depends on these, and Maven Central may not distribute them
_NOT_FREE = ("com.sun.jmx:jmxri", "com.sun.jdmk:jmxtools", "javax.jms:jms")
# Without these, a release's brokers and tools would log nothing; the other releases bring one.
_LOG4J2 = Artifact("org.apache.logging.log4j:log4j-slf4j-impl", "2.25.4")
_SLF4J_SIMPLE = Artifact("org.slf4j:slf4j-simple", "1.7.36")
# was a part of Java up to 10
_JAXB = Artifact("javax.xml.bind:jaxb-api", "2.3.1")

# kafka-tools: the console tools, which were in Kafka's own jar before 3.0.
RELEASES = {
    "0.8.2.2": (Artifact("org.apache.kafka:kafka_2.10", "0.8.2.2", _NOT_FREE),),
    "0.10.2.2": (Artifact("org.apache.kafka:kafka_2.10", "0.10.2.2", _NOT_FREE), _JAXB),
    "0.11.0.3": (Artifact("org.apache.kafka:kafka_2.11", "0.11.0.3", _NOT_FREE), _JAXB),
    "2.8.2": (Artifact("org.apache.kafka:kafka_2.12", "2.8.2"), _SLF4J_SIMPLE),
    "3.9.2": (Artifact("org.apache.kafka:kafka_2.13", "3.9.2"), _SLF4J_SIMPLE),
    VERSION: (
        Artifact("org.apache.kafka:kafka_2.13", VERSION),
        Artifact("org.apache.kafka:kafka-tools", VERSION),
        _LOG4J2,
    ),
    # Incomplete: Maven Central has neither its kafka-tools nor its kafka-tools-api, which the broker does not need.
    "4.4.0": (
        Artifact("org.apache.kafka:kafka_2.13", "4.4.0", ("org.apache.kafka:kafka-tools-api",)),
        _LOG4J2,
    ),
}

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>kafka-wiretap</groupId><artifactId>brokers</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency>{}<version>{}</version><exclusions>{}</exclusions></dependency>"
_EXCLUSION = "<exclusion>{}</exclusion>"
_NAME = "<groupId>{}</groupId><artifactId>{}</artifactId>"


@cache
def kafka_home(release: str = VERSION) -> Path:
    """The folder whose `libs/` holds Kafka's jars. RuntimeError says what to do if they can't be had."""
    if release == VERSION and (override := os.environ.get("KAFKA_HOME")):
        home = Path(override)
        if not list(home.glob("libs/kafka-clients-*.jar")):
            raise RuntimeError(f"KAFKA_HOME={override} has no libs/kafka-clients-*.jar: it should be an unpacked Kafka")
        return home
    sums = Path(__file__).with_name(f"kafka-{release}.sha256")
    try:
        return installed(f"kafka-{release}", RELEASES[release], sums)
    except RuntimeError as error:
        raise RuntimeError(f"Apache Kafka {release} can't be had, and KAFKA_HOME names no other: {error}") from None


def installed(name: str, artifacts: Sequence[Artifact], sums: Path) -> Path:
    """A folder of the cache whose `libs/` holds the artifacts and their dependencies, all as listed in `sums`.

    RuntimeError says why they can't be had.
    """
    home = cache_folder() / name
    if not home.is_dir():
        with locked("kafka"):
            if not home.is_dir():
                _install(home, artifacts, sums)
    return home


@cache
def clients_jar(version: str) -> Path:
    """`kafka-clients-<version>.jar`, without its dependencies. RuntimeError says why it can't be had."""
    folder = cache_folder() / "kafka-clients"
    jar = folder / f"kafka-clients-{version}.jar"
    if not jar.is_file():
        with locked("kafka-clients"), tempfile.TemporaryDirectory(prefix=".kafka-", dir=cache_folder()) as scratch:
            fetched = copy_clients(version, Path(scratch))
            if _sha256(fetched) != _sums(CLIENTS_SUMS).get(jar.name):
                raise RuntimeError(f"{jar.name} is not as {CLIENTS_SUMS.name} has it")
            folder.mkdir(exist_ok=True)
            fetched.rename(jar)
    return jar


def copy_clients(version: str, folder: Path) -> Path:
    """Copies the `kafka-clients` jar that Maven has under that version ("RELEASE": the newest), without a check.

    RuntimeError if Maven can't.
    """
    options = [f"-Dartifact=org.apache.kafka:kafka-clients:{version}", f"-DoutputDirectory={folder / 'jar'}"]
    if said := _maven(folder, (), ["dependency:copy", *options]):
        raise RuntimeError(f"kafka-clients {version} can't be had: {said}")
    (jar,) = (folder / "jar").iterdir()
    return jar


def class_path(release: str = VERSION) -> str:
    """Kafka's jars one by one, because the JVM's class archive accepts no wildcard."""
    return os.pathsep.join(map(str, sorted(kafka_home(release).glob("libs/*.jar"))))


@cache
def java() -> str:
    """The `java` to run. RuntimeError if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not found:
        raise RuntimeError("Java 17 or newer is needed: `make setup` installs it, or let JAVA_HOME point to one")
    return found


def cache_folder() -> Path:
    """The folder of downloads that are kept between runs, outside the checkout."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "kafka-wiretap"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Allows one process at a time; the kernel releases the lock when the process dies."""
    with (cache_folder() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(home: Path, artifacts: Sequence[Artifact], sums: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".kafka-", dir=home.parent) as scratch:
        folder = Path(scratch, "home")
        if said := _copy_jars(artifacts, Path(scratch), folder / "libs") or _faults(sums, folder / "libs"):
            raise RuntimeError(said)
        folder.rename(home)


def _copy_jars(artifacts: Sequence[Artifact], scratch: Path, libs: Path) -> str:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
    return _maven(scratch, artifacts, goal)


def _maven(scratch: Path, artifacts: Sequence[Artifact], goal: list[str]) -> str:
    """Runs Maven on a project that depends on these artifacts; returns its error, or ""."""
    maven = shutil.which("mvn")
    if not maven:
        return "Maven (mvn) is not installed; `make setup` does that"
    pom = scratch / "pom.xml"
    pom.write_text(_POM.format("".join(map(_dependency, artifacts))))
    # --strict-checksums: a wrong checksum is an error, not a warning
    options = ["--batch-mode", "--quiet", "--strict-checksums", "--file", str(pom)]
    done = subprocess.run([maven, *options, *goal], capture_output=True, text=True, timeout=600)
    return f"Maven says:\n{(done.stdout + done.stderr).strip()[-2000:]}" if done.returncode else ""


def _dependency(artifact: Artifact) -> str:
    exclusions = (_EXCLUSION.format(_NAME.format(*name.split(":"))) for name in artifact.without)
    return _DEPENDENCY.format(_NAME.format(*artifact.name.split(":")), artifact.version, "".join(exclusions))


def _faults(sums: Path, libs: Path) -> str:
    """Returns what is wrong with the jars, or ""."""
    expected, found = _sums(sums), {jar.name: _sha256(jar) for jar in libs.iterdir()}
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return f"these jars are missing, extra or not as {sums.name} has them: {wrong}" if wrong else ""


def _sums(file: Path) -> dict[str, str]:
    """File name -> SHA-256."""
    return {name: digest for digest, name in map(str.split, file.read_text().splitlines())}


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
