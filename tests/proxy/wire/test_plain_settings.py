"""Tests of which settings are plain: those that Kafka's code knows and does not mark as passwords."""

import subprocess
from functools import cache
from pathlib import Path

import pytest

from proxy.wire.plain_settings import PLAIN_SETTINGS, may_be_secret
from tests.brokers import jars
from tests.tables import each_row

SOURCE = Path(__file__).parents[2] / "java" / "ConfigNames.java"
RELEASES = ("2.8.2", "3.9.2", "4.3.1", "4.4.0")
# the broker's, and the topics': both have moved
CLASSES = (
    "kafka.server.KafkaConfig",
    "org.apache.kafka.server.config.AbstractKafkaConfig",
    "kafka.log.LogConfig",
    "org.apache.kafka.storage.internals.log.LogConfig",
)


@cache
def settings_of(release: str) -> dict[str, str]:
    """Returns name and type of each setting of a broker and of a topic."""
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars.class_path(release)]
    command = [jars.java(), *options, str(SOURCE), *CLASSES]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in said.splitlines())


@pytest.mark.real
def test_plain_settings_are_kafkas_that_are_no_passwords() -> None:
    found = [one for release in RELEASES for one in settings_of(release).items()]
    passwords = {name for name, kind in found if kind == "PASSWORD"}
    assert {name for name, _ in found} - passwords == PLAIN_SETTINGS
    assert passwords & PLAIN_SETTINGS == set()
    assert {"ssl.key.password", "sasl.jaas.config"} <= passwords


@each_row(
    ("name", "is_sensitive", "secret"),
    [
        ("cleanup.policy", None, False),
        ("cleanup.policy", False, False),
        ("cleanup.policy", True, True),
        ("num.network.threads", False, False),
        ("ssl.key.password", None, True),
        ("ssl.key.password", False, True),
        ("listener.name.internal.ssl.keystore.location", False, True),
        ("confluent.license", False, True),
        ("", None, True),
        (None, None, True),
    ],
)
def test_a_setting_not_known_to_be_plain_may_be_a_secret(
    name: str | None, is_sensitive: bool | None, secret: bool
) -> None:
    assert may_be_secret(name, is_sensitive) is secret
