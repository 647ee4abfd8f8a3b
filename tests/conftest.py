"""Fixtures of the whole suite: clusters, started once and only when a test needs one; the order of tests; no skips.

| fixture     | what                                            | ready in |
|-------------|-------------------------------------------------|----------|
| kafka_one   | Apache Kafka, one node, for the session         | 3 s      |
| kafka_three | Apache Kafka, three nodes, for the session      | 5 s      |
| mock_three  | librdkafka's mock cluster, three, for a module  | 1 s      |

Tests share a session's cluster: use your own topic, group and transaction names, and leave it running. A test that
stops nodes starts them again.
"""

import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# Test helpers are imported as tests.…, whichever way pytest was started.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import sweeps
from tests.brokers.kafka import KafkaCluster
from tests.brokers.mock import MockCluster
from tests.scheduling import pytest_xdist_make_scheduler  # noqa: F401 - a hook

# Collecting makes millions of objects, all of which stay: looking through them again and again would take half as long
# as all the rest of it (pytest_collection_finish ends this).
gc.disable()
# a busy machine, or a function that is compiled when it is first called, is no mistake: no deadline
hypothesis.settings.register_profile("usual", deadline=None, max_examples=sweeps.USUAL)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=sweeps.THOROUGH)
hypothesis.settings.load_profile("usual")
# what a terminal is like is for a test to say: whoever runs the tests in parallel, or in a terminal, has said it here
for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(_name, None)


DEMO = "tests/recorder/demo/"


@pytest.fixture(scope="session")
def kafka_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    # without a key of the broker's there are no delegation tokens
    tokens = {"delegation.token.secret.key": "a-key-of-the-brokers"}
    with KafkaCluster(1, folder=tmp_path_factory.mktemp("kafka") / "one", settings=tokens) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(3, folder=tmp_path_factory.mktemp("kafka") / "three") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def mock_three() -> Iterator[MockCluster]:
    with MockCluster(3) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """A test that starts the program sets where and what is logged, for the process; the next one shall not notice."""
    root, own = logging.getLogger(), logging.getLogger("kafka-wiretap")
    before = root.handlers[:], root.level, own.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


def pytest_configure(config: pytest.Config) -> None:
    # a run in the background inherits an ignored SIGINT, and so would every program whose Ctrl-C is tested
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # kafka-python reads its schemas with functions that Python has deprecated; nothing that this project can mend
    for function in ("read_text", "open_text"):
        config.addinivalue_line("filterwarnings", f"ignore:{function} is deprecated:DeprecationWarning")


# what a name of a test may be made of, and how long a parameter's part of it may be: it stands on a terminal's line
PLAIN_ID = re.compile(r"[ -\[\]-~]{0,48}")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes and long texts are called by their parameter's name, and numbered; pytest names all others.

    Their own content would be an unreadable name, and one that changes where it holds the time.
    """
    if isinstance(val, bytes | bytearray | memoryview):
        return argname
    return argname if isinstance(val, str) and not PLAIN_ID.fullmatch(val) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The fast tests first: a mistake shows before the first broker has started."""
    items.sort(key=_slowness)


def pytest_collection_finish() -> None:
    """What was collected is left out of every later garbage collection."""
    gc.freeze()
    gc.enable()


def _slowness(item: pytest.Item) -> int:
    """Of the slow ones those on Spark come first, which take one process longest; then the demo, the next in length."""
    if item.get_closest_marker("long"):
        return 4
    if item.get_closest_marker("real"):
        return 1 if _uses_spark(item) else 2 if item.nodeid.startswith(DEMO) else 3
    return 0


def _uses_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that can't run has failed: there are no skips here, least of all on CI."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: {report.longrepr}"
    return report
