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
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest

# Test helpers are imported as tests.…, however pytest was started.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from recorder import terminal
from recorder.capture import keep
from tests import sweeps
from tests.brokers.kafka import KafkaCluster
from tests.brokers.mock import MockCluster
from tests.scheduling import (  # noqa: F401 - hooks
    pytest_addoption,
    pytest_ignore_collect,
    pytest_xdist_make_scheduler,
)

# jsonschema builds a grammar of IRIs as it is imported. It takes a second and a half in each process,
# and no test needs it
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
# Collecting makes millions of objects that all stay. Garbage collections over them would take half as long as
# everything else (pytest_collection_finish enables them again).
gc.disable()
# a busy machine, or a function that compiles at its first call, is no failure: there is no deadline
hypothesis.settings.register_profile("usual", deadline=None, max_examples=sweeps.USUAL)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=sweeps.THOROUGH)
hypothesis.settings.load_profile("usual")
# a run under nohup, or in the background of a script, ignores signals, and so would all programs that tests start
for _signal in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# tests set the terminal's properties themselves, whatever the environment of the run says
for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(_name, None)


# what takes longest of one test, beside those on Spark
LONGEST = ("tests/recorder/demo/", "tests/packaging/")


@pytest.fixture(scope="session")
def kafka_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    # a broker without this key has no delegation tokens
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
    """Restores the log's settings after a test that starts the program, because they belong to the process."""
    root, own = logging.getLogger(), logging.getLogger("kafka-wiretap")
    before = root.handlers[:], root.level, own.level
    yield
    root.handlers[:] = before[0]
    # a level that is set, be it the same, empties the caches of all loggers
    for logger, level in zip((root, own), before[1:], strict=True):
        if logger.level != level:
            logger.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def _no_progress() -> Iterator[None]:
    """Commands that run in the tests' own process are never long enough to say how far they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "EVERY_SECONDS", 3600.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_syncs() -> Iterator[None]:
    """A sync may take longer than a test, and only a crash of the machine would show that it is missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _keeps_nothing_free() -> Iterator[None]:
    """What the tests' own process records stays, however full the volume is, unless the tap's settings say otherwise.

    For proxies in processes of their own: `tests.brokers.children.KEEPS_NOTHING_FREE`.
    """

    def declare(folder: Path, session: str, settings: keep.KeepSettings) -> None:
        is_default = settings.keep_free == keep.DEFAULT_FLOOR
        keep.declare(folder, session, replace(settings, keep_free=keep.NO_FLOOR) if is_default else settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recorder.capture.tap.declare", declare)
        yield


def pytest_configure(config: pytest.Config) -> None:
    # a background run inherits an ignored SIGINT, and would pass it on to programs whose Ctrl-C is tested
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # kafka-python reads its schemas with deprecated functions, which this project can't change
    for function in ("read_text", "open_text"):
        config.addinivalue_line("filterwarnings", f"ignore:{function} is deprecated:DeprecationWarning")


# the allowed characters and length of a parameter in a test's name, which must fit into a terminal's line
PLAIN_ID = re.compile(r"[ -\[\]-~]{0,48}")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names bytes and long texts after their parameter, with a number; pytest names all others.

    Their own content would be unreadable, and would change if it holds the time.
    """
    if isinstance(val, bytes | bytearray | memoryview):
        return argname
    return argname if isinstance(val, str) and not PLAIN_ID.fullmatch(val) else None


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Runs the fast tests first, so that mistakes show before the first broker has started.

    Leaves tests out that need what this machine does not have or allow; pytest counts them as deselected.
    """
    items.sort(key=_slowness)
    for marker, is_there in (("ipv6", _has_ipv6), ("dump", _may_dump)):
        needing = [item for item in items if item.get_closest_marker(marker)]
        if needing and not is_there():
            config.hook.pytest_deselected(items=needing)
            items[:] = [item for item in items if item not in needing]


def _has_ipv6() -> bool:
    """True if the machine's loopback has ::1. A kernel without IPv6, and many a container, have none."""
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


def _may_dump() -> bool:
    """False if tcpdump may not open the loopback (CAP_NET_RAW), as in many a container. One that is missing may."""
    program = shutil.which("tcpdump")
    return program is None or not subprocess.run([program, "-i", "lo", "-L"], capture_output=True).returncode


def pytest_collection_finish() -> None:
    """Excludes the collected objects from all later garbage collections."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Spares pytest's garbage collections at its end, five of them, the objects of all tests."""
    gc.freeze()


def _slowness(item: pytest.Item) -> int:
    """Of the slow tests, those on Spark come first, because they take one process longest; then the longest."""
    if item.get_closest_marker("long"):
        return 4
    if item.get_closest_marker("real"):
        return 1 if _uses_spark(item) else 2 if item.nodeid.startswith(LONGEST) else 3
    return 0


def _uses_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skip into a failure: a test that can't run has failed."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: {report.longrepr}"
    return report
