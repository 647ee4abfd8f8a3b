"""Tests of exporting findings over TLS with a login: they arrive, or one line names the error without a secret.

The export is the command's, with findings made by hand. Brokers, logins, certificates and ACLs are real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from recorder.export.publisher import Publisher
from tests.brokers.kafka import PASSWORD, TAPPED_HOST, USER, KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.certificates import Authority
from tests.clients import test_cloudevents
from tests.clients.tap import Tap
from tests.clients.workloads import confluent
from tests.clients.workloads.logins import SCRAM_PASSWORD, SCRAM_USER

pytestmark = [pytest.mark.real, pytest.mark.long]
SCRAM, PLAIN = "SCRAM-SHA-512", "PLAIN"
LOGINS = {SCRAM: (SCRAM_USER, SCRAM_PASSWORD), PLAIN: (USER, PASSWORD)}
WRONG = "no-such-password"


@dataclass(frozen=True, slots=True)
class Secured:
    """A cluster whose clients log in over TLS. `routes`: those of the tap before that listener."""

    cluster: KafkaCluster
    ca: Path
    other_ca: Path

    def settings(self, mechanism: str, **others: str) -> dict[str, str]:
        user, password = LOGINS[mechanism]
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.ca),
        } | {name.replace("_", "."): value for name, value in others.items()}

    def topic(self, name: str, **config: Any) -> str:
        return confluent.create_topic(self.cluster.bootstrap, name, **config)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap})

    def restrict(self, topic: str, operation: AclOperation, permission: AclPermissionType) -> None:
        """Allows or denies something to the user that logs in with SCRAM."""
        where = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
        admin, made = self.admin(), AclBinding(*where, f"User:{SCRAM_USER}", "*", operation, permission)
        for future in admin.create_acls([made]).values():
            future.result(PATIENCE)

    def written(self, topic: str) -> int:
        """Returns the number of records in a topic of one partition."""
        reader = confluent.consumer(self.cluster.bootstrap)
        try:
            return reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE)[1]
        finally:
            reader.close()


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder, "brokers")
    settings = {
        "listener.security.protocol.map": "DIRECT:PLAINTEXT,TAPPED:PLAINTEXT,LOGIN:SASL_SSL,QUORUM:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": authority.signs("broker", TAPPED_HOST.format(1)).path,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "true",
    }
    with KafkaCluster(1, folder=folder / "kafka", settings=settings) as cluster:
        found = Secured(cluster, authority.path, Authority(folder, "others").path)
        made = UserScramCredentialUpsertion(
            SCRAM_USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), SCRAM_PASSWORD.encode()
        )
        admin = found.admin()
        for future in admin.alter_user_scram_credentials([made]).values():
            future.result(PATIENCE)

        def is_known() -> bool:
            everybody = admin.describe_user_scram_credentials()
            assert isinstance(everybody, Future)
            return SCRAM_USER in everybody.result(PATIENCE)

        wait_for(is_known, "the user")
        yield found


@pytest.fixture
def secured(behind: Secured, tmp_path: Path) -> Iterator[Secured]:
    with Tap(behind.cluster.tap_routes, tmp_path / "tap"):
        yield behind


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return test_cloudevents.capture_with_findings(tmp_path / "capture")


@pytest.fixture
def export(secured: Secured, capture: Path) -> Callable[..., Result]:
    """Runs the export with these settings of librdkafka's."""

    def exported(topic: str, settings: dict[str, str], *options: str) -> Result:
        given = [word for name, value in settings.items() for word in ("--producer", f"{name}={value}")]
        return test_cloudevents.run(capture, topic, secured.cluster.login_bootstrap, *given, *options)

    return exported


def line_of(done: Result, code: int) -> str:
    """Returns the one line with which an export ends."""
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    for secret in (PASSWORD, SCRAM_PASSWORD, WRONG):
        assert secret not in line
    return line.removeprefix("Error: ")


@pytest.mark.parametrize("mechanism", LOGINS)
def test_findings_are_exported_over_tls_with_a_login_and_no_secret_stays(
    secured: Secured, export: Callable[..., Result], tmp_path: Path, mechanism: str
) -> None:
    topic = secured.topic("findings")
    done = export(topic, secured.settings(mechanism))
    assert (done.exit_code, done.stdout) == (0, f"published 3 findings to {topic}: partition 0 (3)\n"), done.output
    assert secured.written(topic) == len(test_cloudevents.BY_HAND)
    secret = LOGINS[mechanism][1].encode()
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and secret in file.read_bytes()]


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize("mechanism", LOGINS)
def test_a_wrong_password_is_named_as_such(
    secured: Secured, export: Callable[..., Result], mechanism: str, mode: str
) -> None:
    topic = secured.topic("login")
    done = export(topic, secured.settings(mechanism, sasl_password=WRONG), "--mode", mode)
    line = line_of(done, 2)
    assert line.startswith(f"{secured.cluster.login_bootstrap} refuses the login: ")
    assert line.endswith("; right would be sasl.mechanism, sasl.username and sasl.password of a user that it knows")
    assert secured.written(topic) == 0


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_an_untrusted_certificate_is_named_as_such(secured: Secured, export: Callable[..., Result], mode: str) -> None:
    topic = secured.topic("tls")
    done = export(topic, secured.settings(SCRAM, ssl_ca_location=str(secured.other_ca)), "--mode", mode)
    line = line_of(done, 2)
    assert line.startswith(f"no TLS with {secured.cluster.login_bootstrap}: ")
    assert "certificate verify failed" in line
    assert line.endswith("; right would be ssl.ca.location, the file of the authority that signed its certificate")
    assert secured.written(topic) == 0


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_topic_that_may_not_be_written_gets_nothing(
    secured: Secured, export: Callable[..., Result], mode: str
) -> None:
    topic = secured.topic("denied")
    secured.restrict(topic, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    secured.restrict(topic, AclOperation.WRITE, AclPermissionType.DENY)
    line = line_of(export(topic, secured.settings(SCRAM), "--mode", mode), 2)
    assert line == f"nothing was published: {topic} can't be written: Broker: Topic authorization failed"
    assert secured.written(topic) == 0


def test_a_topic_that_may_not_be_seen_is_not_reported_as_missing(
    secured: Secured, export: Callable[..., Result]
) -> None:
    topic = secured.topic("hidden")
    secured.restrict(topic, AclOperation.DESCRIBE, AclPermissionType.DENY)
    line = line_of(export(topic, secured.settings(SCRAM)), 2)
    assert f"has no topic {topic}, or none that this login may see; right would be " in line


def test_an_event_that_is_too_large_after_one_that_is_not_is_a_partial_export(
    secured: Secured, export: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = test_cloudevents.BY_HAND
    large = replace(first, subject="large", advice="look " * 1000)
    monkeypatch.setattr(test_cloudevents, "BY_HAND", [first, large, *others])
    topic = secured.topic("small", **{"max.message.bytes": "3000"})
    # one record per batch, so the large record does not fail the others
    line = line_of(export(topic, secured.settings(SCRAM) | {"batch.num.messages": "1"}), 1)
    done = secured.written(topic)
    assert line == (
        f"{done} of 4 events were published to {topic}, then: Broker: Message size too large; "
        "exporting again is safe, since events keep their ids"
    )
    assert 1 <= done < 4


def test_a_broker_that_goes_in_the_middle_is_a_partial_export(
    behind: Secured, capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = behind.topic("gone")
    tap = Tap(behind.cluster.tap_routes, tmp_path / "tap")
    send = Publisher._send

    def send_and_cut(self: Publisher, messages: Any) -> None:
        send(self, messages)
        tap.close()

    monkeypatch.setattr(Publisher, "_send", send_and_cut)
    settings = behind.settings(SCRAM) | {"message.timeout.ms": "3000"}
    given = [word for name, value in settings.items() for word in ("--producer", f"{name}={value}")]
    with tap:
        done = test_cloudevents.run(capture, topic, behind.cluster.login_bootstrap, *given)
    assert line_of(done, 1) == (
        f"1 of 3 events were published to {topic}, then: Local: Message timed out; "
        "exporting again is safe, since events keep their ids"
    )
    assert behind.written(topic) == 1
