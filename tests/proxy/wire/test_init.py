"""Tests of the package as a library: the names that its page lists."""

import doctest
import subprocess
import sys
from pathlib import Path

from proxy import wire

ROOT = Path(__file__).parents[3]


def test_the_example_of_the_room_runs() -> None:
    result = doctest.testmod(wire, optionflags=doctest.ELLIPSIS)
    assert result.attempted >= 5
    assert result.failed == 0


def test_every_public_name_is_there_and_documented() -> None:
    for name in wire.__all__:
        assert getattr(wire, name).__doc__, name


def test_importing_the_room_compiles_and_reads_nothing() -> None:
    code = (
        # from Python 3.13 on, the code of `-c` is there from the start
        "import linecache; before = {*linecache.cache}; import proxy.wire; from proxy.wire import apis; "
        "print(apis.api.cache_info().currsize, [name for name in {*linecache.cache} - before if name[0] == '<'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.strip() == "0 []"
