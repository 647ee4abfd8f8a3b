"""Clients that log in and misbehave, and corrected ones, as in `misuse`.

Their brokers have an authorizer, and require each login to be renewed every five seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
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

from tests.brokers.kafka import PASSWORD, USER
from tests.clients.workloads.misuse import Client, Work

RENEWED_AFTER_MS = 5000
# of the brokers: who has logged in may do what no ACL is about; who asks without a login administers
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    "connections.max.reauth.ms": RENEWED_AFTER_MS,
}
TOPICS = dict.fromkeys(("payroll", "canteen", "letters"), 1)
# of the rules whose thresholds are rates: a loaded machine is slow
THRESHOLDS = {"denied": 0.3}
# who logs in with SCRAM, and with what, before and after
STAFF, MECHANISM, OLD, NEW = "dora", ScramMechanism.SCRAM_SHA_256, "old-secret-of-dora", "new-secret-of-dora"


def prepare(bootstrap: str) -> None:
    """Who may do what; needs no login."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    allowed = [("payroll", AclOperation.DESCRIBE), ("canteen", AclOperation.DESCRIBE), ("canteen", AclOperation.READ)]
    for future in admin.create_acls([_allowed(*one) for one in allowed]).values():
        future.result(60)
    _set_password(admin, OLD)


def _allowed(topic: str, operation: AclOperation) -> AclBinding:
    pattern = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
    return AclBinding(*pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)


def _set_password(admin: AdminClient, password: str) -> None:
    made = UserScramCredentialUpsertion(STAFF, ScramCredentialInfo(MECHANISM, 4096), password.encode())
    for future in admin.alter_user_scram_credentials([made]).values():
        future.result(60)


def commits_what_it_may_not_read(work: Work) -> None:
    _commits(work, "payroll")


def commits_what_it_may_read(work: Work) -> None:
    _commits(work, "canteen")


def _commits(work: Work, topic: str) -> None:
    consumer = Consumer(_plain(work, "curious") | {"group.id": "curious"})
    while work.goes_on(0.2):
        with suppress(KafkaException):
            consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()


def goes_on_with_its_old_password(work: Work) -> None:
    _has_its_password_changed(work, lambda producer: producer)


def begins_anew_with_the_new_one(work: Work) -> None:
    _has_its_password_changed(work, lambda _: None)


def _has_its_password_changed(work: Work, keeps: Callable[[Producer], Producer | None]) -> None:
    admin, producer = AdminClient(_plain(work, "office")), _scram(work, OLD)
    _sends(producer, work, 100)
    kept = keeps(producer)
    # without another reference it closes its connections
    del producer
    _set_password(admin, NEW)
    _sends(kept or _scram(work, NEW), work)


def _sends(producer: Producer, work: Work, count: float = float("inf")) -> None:
    while work.goes_on(0.2) and count > 0:
        with suppress(BufferError, KafkaException):
            producer.produce("letters", b"value")
        producer.flush(1)
        count -= 1


def _plain(work: Work, client_id: str) -> dict[str, Any]:
    return _login(work, client_id, "PLAIN", USER, PASSWORD)


def _scram(work: Work, password: str) -> Producer:
    # a record that can't be sent is given up soon
    own = _login(work, "staff", "SCRAM-SHA-256", STAFF, password) | {"message.timeout.ms": 5000}
    return Producer(own)


def _login(work: Work, client_id: str, mechanism: str, user: str, password: str) -> dict[str, object]:
    own = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password, "error_cb": lambda _: None}
    return work.settings(client_id, **{"security.protocol": "SASL_PLAINTEXT"} | own)


# the rules that each client is found by; and the same client mended, which none finds
CLIENTS: tuple[tuple[tuple[str, ...], Client, Client], ...] = (
    (("denied",), commits_what_it_may_not_read, commits_what_it_may_read),
    (("login_breaks",), goes_on_with_its_old_password, begins_anew_with_the_new_one),
)
