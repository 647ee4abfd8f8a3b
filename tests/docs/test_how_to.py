"""The commands that how-tos show run: on a capture of a shop and of a client that is too old for Kafka 4."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.mock import MockCluster
from tests.brokers.ports import Reserved
from tests.docs.shown import bash, run

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
RECORD = """
kafka-wiretap proxy --upstream {upstream} --listen {listener} --record capture 2> proxy.log & proxy=$!
until grep -q 'node found' proxy.log; do sleep 0.1; done
python - <<'END'
from confluent_kafka import Producer
from kafka import KafkaProducer

shop = Producer({{"bootstrap.servers": "{listener}", "client.id": "shop"}})
for number in range(100):
    shop.produce("payments", f"payment {{number}}")
shop.flush()
till = KafkaProducer(bootstrap_servers="{listener}", client_id="till", api_version=(0, 10, 2))
till.send("payments", b"cash").get(60)
till.close()
END
kill $proxy && wait $proxy
"""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the capture."""
    folder = tmp_path_factory.mktemp("captured")
    listener = Reserved("127.0.0.1")
    with MockCluster() as cluster:
        bash(RECORD.format(upstream=cluster.bootstrap, listener=listener), folder)
    listener.release()
    return folder


def test_the_check_before_kafka_4_names_the_old_client_alone(captured: Path) -> None:
    printed = run("kafka-4.md", captured)
    short, asked = printed.split("fate", 1)
    assert "Produce" in next(line for line in short.splitlines() if "till" in line)
    assert "till" in asked
    assert "shop" not in asked


def test_a_capture_is_replayed_against_an_empty_cluster(captured: Path) -> None:
    with MockCluster() as target:
        printed = run("replay-in-ci.md", captured, {"$TARGET": target.bootstrap})
    assert "Nothing is missing" in printed
    assert (captured / "replay.json").exists()


def test_the_settings_of_a_sidecar_are_right(tmp_path: Path) -> None:
    assert "own_node" in run("sidecar.md", tmp_path)
