"""Reads Kafka's own definitions of data messages from a broker's jars, and the Java classes made of them."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from tests.brokers.jars import kafka_home
from tests.proxy.wire.kafka_definitions import Definition

# `wire.headers` has the headers of requests
HEADERS = {"RequestHeader", "ResponseHeader"}


class Data(NamedTuple):
    """A definition, and the full name of its class."""

    definition: Definition
    java_class: str


@cache
def data_definitions() -> dict[str, Data]:
    """Returns name -> definition and class, from all jars of the broker that the tests run."""
    found: dict[str, Data] = {}
    for jar in sorted(kafka_home().glob("libs/kafka-*.jar")):
        found |= {data.definition["name"]: data for data in data_of(jar)}
    return found


def data_of(jar: Path) -> Iterator[Data]:
    """Yields the data messages in one jar."""
    with ZipFile(jar) as archive:
        names = archive.namelist()
        classes = {name.rpartition("/")[2]: name for name in names if name.endswith(".class")}
        for name in names:
            if re.search(r"(^|/)(message|metadata)/\w+\.json$", name):
                definition = parsed(archive.read(name).decode())
                if definition["type"] not in ("request", "response") and definition["name"] not in HEADERS:
                    java = classes.get(f"{definition['name']}.class", "")
                    yield Data(definition, java.removesuffix(".class").replace("/", "."))


def parsed(text: str) -> Definition:
    """Parses JSON without its comments; a tagged field without versions has those of its tag."""
    definition: dict[str, Any] = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
    for struct in (definition, *definition.get("commonStructs", [])):
        say_versions(struct)
    return definition


def say_versions(struct: dict[str, Any]) -> None:
    for field in struct.get("fields", []):
        field.setdefault("versions", field.get("taggedVersions"))
        say_versions(field)
