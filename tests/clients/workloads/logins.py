"""Each client logs in, and works: PLAIN as the user that the brokers' settings have, SCRAM as one made for it."""

import asyncio
from pathlib import Path

from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka import KafkaProducer

from tests.brokers.kafka import PASSWORD, USER, KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.workloads import PATIENCE

PLAIN, SCRAM = "PLAIN", "SCRAM-SHA-256"
SCRAM_USER, SCRAM_PASSWORD = "bob", "secret-of-bob"
CREDENTIALS = {PLAIN: (USER, PASSWORD), SCRAM: (SCRAM_USER, SCRAM_PASSWORD)}
# what no capture may hold, wherever it passed
SECRETS = (PASSWORD.encode(), SCRAM_PASSWORD.encode())


def makes_a_user(cluster: KafkaCluster, bootstrap: str) -> None:
    """Logged in with PLAIN; the new user's credentials pass the proxy. Every node knows them at the end."""
    admin = AdminClient(_confluent(bootstrap, PLAIN))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    made = UserScramCredentialUpsertion(SCRAM_USER, info, SCRAM_PASSWORD.encode())
    for future in admin.alter_user_scram_credentials([made]).values():
        future.result(PATIENCE)
    for node in cluster.nodes.values():
        asked = AdminClient({"bootstrap.servers": str(node.direct)})
        wait_for(lambda asked=asked: _knows_user(asked), f"node {node.number} to know the user")


def _knows_user(admin: AdminClient) -> bool:
    return SCRAM_USER in admin.describe_user_scram_credentials().result(PATIENCE)


def confluent_logs_in(bootstrap: str, topic: str, mechanism: str) -> None:
    producer = Producer(_confluent(bootstrap, mechanism))
    producer.produce(topic, b"confluent")
    assert producer.flush(PATIENCE) == 0


def aiokafka_logs_in(bootstrap: str, topic: str, mechanism: str) -> None:
    async def produce() -> None:
        async with AIOKafkaProducer(**_python(bootstrap, mechanism)) as producer:
            await producer.send_and_wait(topic, b"aiokafka")

    asyncio.run(produce())


def kafka_python_logs_in(bootstrap: str, topic: str, mechanism: str) -> None:
    producer = KafkaProducer(**_python(bootstrap, mechanism))
    producer.send(topic, b"kafka-python").get(PATIENCE)
    producer.close()


def java_logs_in(cluster: KafkaCluster, bootstrap: str, topic: str, mechanism: str, folder: Path) -> None:
    user, password = CREDENTIALS[mechanism]
    module = {PLAIN: "plain.PlainLoginModule", SCRAM: "scram.ScramLoginModule"}[mechanism]
    jaas = f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";'
    config = folder / f"{mechanism}.properties"
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
    where = ["--bootstrap-server", bootstrap, "--topic", topic, "--command-config", str(config)]
    cluster.console("kafka-console-producer", *where, "--request-timeout-ms", str(PATIENCE * 1000), stdin="java\n")


def _confluent(bootstrap: str, mechanism: str) -> dict[str, str]:
    user, password = CREDENTIALS[mechanism]
    login = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    return {"bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT"} | login


def _python(bootstrap: str, mechanism: str) -> dict[str, str]:
    user, password = CREDENTIALS[mechanism]
    login = {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
    return {"bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT"} | login
