"""The programs that are measured, and those that measure: each a child process that ends with the block it runs in."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.brokers import children
from tests.brokers.waiting import wait_for

HERE = Path(__file__).parent
ROOT = HERE.parent

# enough to load a Python program on a busy machine
START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Programs:
    """The fake broker and the load generator, built."""

    broker: Path
    load: Path


def build(folder: Path) -> Programs:
    """Compile the C programs into `folder`. CalledProcessError when the compiler finds something."""
    programs = Programs(folder / "broker", folder / "load")
    for program in programs.broker, programs.load:
        source = HERE / f"{program.name}.c"
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
        subprocess.run(["cc", *flags, "-o", str(program), str(source)], check=True)
    return programs


@contextmanager
def running(command: Sequence[str | Path], log: Path, ready: str) -> Iterator[re.Match[str]]:
    """A child within a block, once it has said what it says when it is ready.

    Args:
        log: the file that takes what it says.
        ready: a regular expression of a whole line; its match is yielded.
    """
    line = re.compile(f"^{ready}$", re.MULTILINE)
    child = children.spawn([str(part) for part in command], output=log, cwd=ROOT)
    try:
        wait_for(
            lambda: line.search(log.read_text()),
            f"{command[0]} to say {ready}",
            seconds=START_SECONDS,
            hopeless=lambda: None if child.poll() is None else f"it ended with {child.returncode}:\n{log.read_text()}",
        )
        found = line.search(log.read_text())
        assert found is not None
        yield found
    finally:
        children.stop(child)
