"""Each client logs in, and works: with PLAIN as the user in the brokers' settings, with SCRAM as a new one."""

import asyncio
import json
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonsTokenProvider

from tests.brokers import children
from tests.brokers.kafka import PASSWORD, USER, KafkaCluster
from tests.brokers.waiting import PATIENCE, wait_for

PLAIN, SCRAM_256, SCRAM_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
SCRAM_USER, SCRAM_PASSWORD = "bob", "secret-of-bob"
SCRAM_MECHANISMS = {ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512}
OAUTHBEARER = "OAUTHBEARER"
# the subject of unsigned tokens, which test brokers accept
BEARER_USER = "carol"
CREDENTIALS = {PLAIN: (USER, PASSWORD)} | dict.fromkeys((SCRAM_256, SCRAM_512), (SCRAM_USER, SCRAM_PASSWORD))
# secrets that no capture may hold
SECRETS = (PASSWORD.encode(), SCRAM_PASSWORD.encode())


def makes_a_user(cluster: KafkaCluster, bootstrap: str) -> None:
    """Logs in with PLAIN; the new user's credentials pass the proxy. At the end, every node knows the user."""
    admin = AdminClient(_confluent(bootstrap, PLAIN))
    for mechanism in SCRAM_MECHANISMS:  # brokers accept one change for each user and request
        made = UserScramCredentialUpsertion(SCRAM_USER, ScramCredentialInfo(mechanism, 4096), SCRAM_PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([made]).values():
            future.result(PATIENCE)
    for node in cluster.nodes.values():
        asked = AdminClient({"bootstrap.servers": str(node.direct)})
        wait_for(partial(_knows_user, asked), f"node {node.number} to know the user")


def _knows_user(admin: AdminClient) -> bool:
    everybody = admin.describe_user_scram_credentials()
    assert isinstance(everybody, Future)
    known = everybody.result(PATIENCE).get(SCRAM_USER)
    return known is not None and {info.mechanism for info in known.scram_credential_infos} == SCRAM_MECHANISMS


def confluent_logs_in(bootstrap: str, topic: str, mechanism: str) -> None:
    producer = Producer(_confluent(bootstrap, mechanism))
    producer.produce(topic, b"confluent")
    assert producer.flush(PATIENCE) == 0


def confluent_is_refused(bootstrap: str, mechanism: str) -> None:
    """Logs in with a wrong password."""
    told: list[object] = []
    wrong = {"sasl.password": "no-such-password", "error_cb": told.append}
    producer = Producer(_confluent(bootstrap, mechanism) | wrong)

    def is_told() -> bool:
        producer.poll(0.1)
        return any("Authentication failed" in str(error) for error in told)

    wait_for(is_told, f"confluent to be refused with {mechanism}")


def aiokafka_logs_in(bootstrap: str, topic: str, mechanism: str) -> None:
    async def produce() -> None:
        bearer = {"sasl_oauth_token_provider": _ForAiokafka()} if mechanism == OAUTHBEARER else {}
        async with AIOKafkaProducer(**_python(bootstrap, mechanism), **bearer) as producer:
            await producer.send_and_wait(topic, b"aiokafka")

    asyncio.run(produce())


def kafka_python_logs_in(bootstrap: str, topic: str, mechanism: str) -> None:
    bearer = {"sasl_oauth_token_provider": _ForKafkaPython()} if mechanism == OAUTHBEARER else {}
    producer = KafkaProducer(**_python(bootstrap, mechanism), **bearer)
    producer.send(topic, b"kafka-python").get(PATIENCE)
    producer.close()


def java_logs_in(cluster: KafkaCluster, bootstrap: str, topic: str, mechanism: str, folder: Path) -> None:
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--command-config", str(_java(mechanism, folder))]
    cluster.console("kafka-console-producer", *where, "--request-timeout-ms", str(PATIENCE * 1000), stdin="java\n")


def confluent_stays_logged_in(bootstrap: str, topic: str, mechanism: str, is_enough: Callable[[], object]) -> None:
    """Keeps producing over connections that must log in again and again."""
    lost: list[object] = []
    producer = Producer(_confluent(bootstrap, mechanism) | {"error_cb": lost.append})

    def produce() -> bool:
        producer.produce(topic, b"confluent")
        assert producer.flush(PATIENCE) == 0
        return bool(is_enough())

    wait_for(produce, f"confluent to log in with {mechanism} again")
    assert lost == []


def java_stays_logged_in(
    cluster: KafkaCluster, bootstrap: str, topic: str, mechanism: str, folder: Path, is_enough: Callable[[], object]
) -> None:
    """Does the same with Java, ten records a second."""
    config = _java(mechanism, folder)
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--command-config", str(config)]
    command = cluster.console_command("kafka-verifiable-producer", *where, "--throughput", "10", "--acks", "-1")
    output = folder / "producer.out"
    producer = children.spawn(command, output=output)
    try:
        wait_for(is_enough, f"Java to log in with {mechanism} again", hopeless=lambda: _ended(producer, output))
        told = output.read_text()
    finally:
        children.stop(producer)
    assert "producer_send_success" in told
    assert "producer_send_error" not in told


def _ended(child: subprocess.Popen[bytes], output: Path) -> str | None:
    return None if child.poll() is None else output.read_text()[-2000:]


class _ForAiokafka(AbstractTokenProvider):
    async def token(self) -> str:
        return unsigned_token()


class _ForKafkaPython(KafkaPythonsTokenProvider):
    def token(self) -> str:
        return unsigned_token()


def unsigned_token() -> str:
    """A JWT without a signature (RFC 7519), valid for an hour."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": BEARER_USER, "iat": now, "exp": now + 3600})
    return ".".join([*(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), ""])


def _confluent(bootstrap: str, mechanism: str) -> dict[str, Any]:
    if mechanism == OAUTHBEARER:
        login = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={BEARER_USER}"}
    else:
        user, password = CREDENTIALS[mechanism]
        login = {"sasl.username": user, "sasl.password": password}
    return {"bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism} | login


def _java(mechanism: str, folder: Path) -> Path:
    """Writes a file of settings."""
    module = {
        PLAIN: "plain.PlainLoginModule",
        SCRAM_256: "scram.ScramLoginModule",
        SCRAM_512: "scram.ScramLoginModule",
        OAUTHBEARER: "oauthbearer.OAuthBearerLoginModule",
    }[mechanism]
    user, password = CREDENTIALS.get(mechanism, ("", ""))
    options = f'username="{user}" password="{password}"' if user else f'unsecuredLoginStringClaim_sub="{BEARER_USER}"'
    jaas = f"org.apache.kafka.common.security.{module} required {options};"
    config = folder / f"{mechanism}.properties"
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
    return config


def _python(bootstrap: str, mechanism: str) -> dict[str, Any]:
    protocol = {"bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    if mechanism == OAUTHBEARER:
        return protocol
    user, password = CREDENTIALS[mechanism]
    return protocol | {"sasl_plain_username": user, "sasl_plain_password": password}
