"""Decides which process runs which tests, with pytest-xdist.

`--dist loadfile`, for slow tests: the tests of a file run in one process, since they share what the file has started.
All tests of the analysis run in one process too. Its Spark session takes long to start and to warm up, and uses more
than one core, so the files of the other processes, which mostly wait for brokers and clients, run beside it.

`--deal-files`, for fast tests: the files are dealt to the processes like cards before anything is collected. Importing
all test files takes as long as running a quarter of the fast tests, and every other way of pytest-xdist has each
process import them all.
"""

from pathlib import Path

import pytest
from xdist.scheduler import EachScheduling, LoadFileScheduling

# the folder of the analysis' tests, below that of pytest's configuration
ON_SPARK = "tests/recorder/analysis/"
# the files of tests in the order in which pytest comes to them, which is the same in each process
FOUND = pytest.StashKey[dict[Path, int]]()


class FilesAndSpark(LoadFileScheduling):
    """Hands out whole files, in the order of collection; those of the analysis together."""

    def _split_scope(self, nodeid: str) -> str:
        return ON_SPARK if nodeid.startswith(ON_SPARK) else super()._split_scope(nodeid)


class Dealt(EachScheduling):
    """Has each process run all that it has collected."""

    def schedule(self) -> None:
        # pytest-xdist takes each process' tests for all tests
        session = self.config.pluginmanager.get_plugin("session")
        session.testscollected = sum(map(len, self.node2collection.values()))
        super().schedule()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deal-files", action="store_true", help="with -n: each process collects its own share of files")
    parser.addoption("--soak-seconds", type=float, default=60, help="how long processes die in turns (default: 60)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesAndSpark | Dealt | None:
    if config.getoption("deal_files"):
        return Dealt(config, log)
    return FilesAndSpark(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignores the files that are dealt to the other processes."""
    worker = getattr(config, "workerinput", None)
    if worker is None or not config.getoption("deal_files") or not collection_path.match("test_*.py"):
        return None
    found = config.stash.setdefault(FOUND, {})
    number = found.setdefault(collection_path, len(found))
    return True if number % worker["workercount"] != int(worker["workerid"].removeprefix("gw")) else None
