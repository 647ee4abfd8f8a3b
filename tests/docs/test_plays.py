"""The commands that pages show run, in their order: each is run here, or `NOT_RUN` says why it can't be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.brokers.kafka import PASSWORD, USER, KafkaCluster
from tests.brokers.mock import MockCluster
from tests.brokers.ports import Reserved
from tests.clients.tap import Tap
from tests.clients.workloads import confluent
from tests.docs.plays import NOT_RUN, PLAYS
from tests.docs.shown import PAGES, ROOT, bash, fences, run
from tests.recorder.analysis.standalone import standalone
from tests.recorder.tracing.receiver import receiver
from tests.s3 import store as s3_store

# A client that is too old for Kafka 4, a shop that writes payments and orders, and a group that reads the orders.
RECORD = """
begin 'node found' kafka-wiretap proxy --upstream {upstream} --listen {listener} --record capture
python - <<'END'
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

shop = Producer({{"bootstrap.servers": "{listener}", "client.id": "shop"}})
for number in range(100):
    shop.produce("payments", f"payment {{number}} EUR")
    shop.produce("orders", f"order {{number}}", key=str(4700 + number))
shop.flush()
billing = Consumer({{
    "bootstrap.servers": "{listener}", "client.id": "billing", "group.id": "billing", "auto.offset.reset": "earliest"
}})
billing.subscribe(["orders"])
assert len(billing.consume(100, 600)) == 100
billing.commit(asynchronous=False)
billing.close()
till = KafkaProducer(bootstrap_servers="{listener}", client_id="till", api_version=(0, 10, 2))
till.send("payments", b"cash").get(600)
till.close()
END
kill $! && wait $!
"""


def test_each_command_that_a_page_shows_is_run_or_says_why_not() -> None:
    pages = {page.relative_to(ROOT).as_posix(): page.read_text() for page in PAGES}
    with_commands = {page for page, text in pages.items() if fences(text, {"bash"})}
    assert with_commands == set(PLAYS)
    unrun = [(page, fence) for page, text in pages.items() for fence in fences(text, {"", "sh", "console"})]
    missing = [one for one in unrun if not any(_is_of(one, row) for row in NOT_RUN)]
    assert missing == [], (
        "make it a fence of the language bash, with a row in PLAYS, or say in NOT_RUN why it is not run"
    )
    assert [row for row in NOT_RUN if not any(_is_of(one, row) for one in unrun)] == []
    named = [name for reason in NOT_RUN.values() for name in re.findall(r"tests/[\w/.]+", reason)]
    assert [name for name in named if not (ROOT / name).exists()] == []


def _is_of(shown: tuple[str, str], row: tuple[str, str]) -> bool:
    return shown[0] == row[0] and shown[1].startswith(row[1])


@pytest.mark.real
@pytest.mark.timeout(3700)
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.long] * play.is_long) for page, play in PLAYS.items()]
)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    play = PLAYS[page]

    def filled(text: str) -> str:
        return re.sub(r"@([a-z_]+)@", lambda name: str(request.getfixturevalue(name[1])), text)

    replaced = {old: filled(new) for old, new in play.replaced.items()}
    printed = run(ROOT / page, tmp_path, filled(play.first), replaced)
    assert [text for text in play.says if text not in printed] == []
    if page in ALSO:
        ALSO[page](printed)


def _names_the_old_client_alone(printed: str) -> None:
    short, asked = printed.split("select fate", 1)
    assert "Produce" in next(line for line in short.splitlines() if "till" in line)
    assert "till" in asked
    assert "shop" not in asked


def _finds_what_the_tutorial_says(printed: str) -> None:
    page = " ".join((ROOT / "docs" / "tutorial.md").read_text().split())
    (finding,) = re.findall(r"has a finding: `(.*?)`", page)
    before, after = printed.split(finding, 1)
    assert "times_in_seconds" not in before
    assert "Findings: 1 gone" in after


# page -> what else its output must be
ALSO: Mapping[str, Callable[[str], None]] = {
    "docs/kafka-4.md": _names_the_old_client_alone,
    "docs/tutorial.md": _finds_what_the_tutorial_says,
}


def _recorded(upstream: str, folder: Path) -> Path:
    """The folder with the capture of RECORD."""
    listener = Reserved("127.0.0.1")
    bash(RECORD.format(upstream=upstream, listener=listener), folder)
    listener.release()
    return folder / "capture"


@pytest.fixture(scope="module")
def mock_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with MockCluster() as cluster:
        return _recorded(cluster.bootstrap, tmp_path_factory.mktemp("mock"))


@pytest.fixture(scope="module")
def kafka_capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the last Kafka that takes the old client's requests."""
    folder = tmp_path_factory.mktemp("kafka")
    with KafkaCluster(1, folder=folder / "broker", release="3.9.2") as cluster:
        return _recorded(cluster.bootstrap, folder)


@pytest.fixture
def root() -> Path:
    return ROOT


@pytest.fixture
def mock() -> Iterator[str]:
    with MockCluster() as cluster:
        yield cluster.bootstrap


@pytest.fixture
def kafka(kafka_one: KafkaCluster) -> str:
    return kafka_one.bootstrap


@pytest.fixture
def empty_kafka(tmp_path: Path) -> Iterator[str]:
    with KafkaCluster(1, folder=tmp_path / "empty-kafka") as cluster:
        yield cluster.bootstrap


@pytest.fixture
def topic(kafka_one: KafkaCluster) -> str:
    return confluent.create_topic(kafka_one.bootstrap, "shown")


@pytest.fixture
def login_kafka(kafka_one: KafkaCluster, tmp_path: Path) -> Iterator[str]:
    """A listener that demands a login, and that is reached through a tap, as all that it advertises."""
    with Tap(kafka_one.tap_routes, tmp_path / "tap"):
        yield kafka_one.login_bootstrap


@pytest.fixture
def user() -> str:
    return USER


@pytest.fixture
def password() -> str:
    return PASSWORD


@pytest.fixture
def port() -> Iterator[int]:
    yield from _reserved()


@pytest.fixture
def admin_port() -> Iterator[int]:
    yield from _reserved()


def _reserved() -> Iterator[int]:
    port = Reserved("127.0.0.1")
    yield port.port
    port.release()


@pytest.fixture
def store() -> Iterator[str]:
    """The environment of a store's clients, in words of the shell. It has a bucket."""
    with s3_store() as found:
        found.system().create_dir("bucket")
        yield " ".join(f"{name}={value}" for name, value in found.environment.items())


@pytest.fixture
def operators_settings(kafka: str, port: int, admin_port: int) -> str:
    """The settings that docs/operate-recorder.md shows, for this machine."""
    shown = fences((ROOT / "docs" / "operate-recorder.md").read_text(), {"toml"})[0]
    for old, new in (
        ('"broker-1:9092", "broker-2:9092"', f'"{kafka}"'),
        ("127.0.0.1:19092", f"127.0.0.1:{port}"),
        ("127.0.0.1:9464", f"127.0.0.1:{admin_port}"),
        ("/var/lib/kafka-wiretap", "recorded"),
        # what it records stays, however full the volume is
        ('keep.age = "7d"', 'keep.age = "7d"\nkeep.free = 0'),
    ):
        assert old in shown
        shown = shown.replace(old, new)
    return shown


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[str]:
    with standalone(tmp_path, workers=2) as address:
        yield address


@pytest.fixture
def collector() -> Iterator[str]:
    with receiver() as found:
        yield found.url
