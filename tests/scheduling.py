"""Decides which process runs which slow tests, with pytest-xdist's `--dist loadfile`.

The tests of a file run in one process, since they share what the file has started. All tests of the analysis run in one
process too. Its Spark session takes long to start and to warm up, and uses more than one core, so the files of the
other processes, which mostly wait for brokers and clients, run beside it.
"""

import pytest
from xdist.scheduler import LoadFileScheduling

# the folder of the analysis' tests, below that of pytest's configuration
ON_SPARK = "tests/recorder/analysis/"


class FilesAndSpark(LoadFileScheduling):
    """Hands out whole files, in the order of collection; those of the analysis together."""

    def _split_scope(self, nodeid: str) -> str:
        return ON_SPARK if nodeid.startswith(ON_SPARK) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesAndSpark | None:
    return FilesAndSpark(config, log) if config.getoption("dist") == "loadfile" else None
