"""`python -m fuzz`: atheris over the checks, one group of them after the other. `make fuzz SECONDS=600`.

Atheris instruments the project's modules and the functions generated for each message and version. Inputs that reach
new code are kept in .fuzz/corpus-GROUP for the next run. An input that breaks a check ends the run, and is written to
.fuzz/crash-*. `python -m fuzz .fuzz/crash-…` runs it again. To keep it, move it to fuzz/found/CHECK.what_it_broke,
without its first byte.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["proxy", "recorder"], enable_loader_override=False):
    from fuzz import checks
    from proxy.wire.compile.source import Source

KEPT = Path(".fuzz")
# per input; the slowest seen takes 0.1 s
SECONDS_PER_INPUT = 10
# half an hour, with the functions of nearly every message and version, took 200
MEGABYTES = 1500
MAX_BYTES = 8192


def instrument_generated() -> None:
    """Functions that are written and compiled at run time count for coverage too."""
    function = Source.function

    def instrumented(self: Source) -> Callable[..., Any]:
        made: Callable[..., Any] = atheris.instrument_func(function(self))
        return made

    setattr(Source, "function", instrumented)  # noqa: B010


def one_input(group: list[str], data: bytes) -> None:
    """The first byte says which check. Others than the group's are other runs'."""
    names = list(checks.CHECKS)
    if data and (name := names[data[0] % len(names)]) in group:
        checks.run(name, data[1:])


def seeded(folder: Path, group: list[str]) -> Path:
    """The folder with the corpus as atheris reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(checks.CHECKS)
    for one in checks.inputs():
        if one.check in group:
            (folder / f"{one.check}-{one.name}").write_bytes(bytes([names.index(one.check)]) + one.data)
    return folder


def fuzz(start: list[str], group: list[str], seconds: int) -> None:
    """Does not return: atheris ends the process."""
    # what peers do wrong is said aloud in the life of a proxy
    logging.disable()
    options = [f"-max_total_time={seconds}", f"-timeout={SECONDS_PER_INPUT}", f"-rss_limit_mb={MEGABYTES}"]
    options += [f"-max_len={MAX_BYTES}", f"-artifact_prefix={KEPT}/", "-print_final_stats=1"]
    instrument_generated()
    atheris.Setup([sys.argv[0], *options, *start], lambda data: one_input(group, data))
    atheris.Fuzz()


def each(seconds: int) -> int:
    """Every group in a process of its own. Returns the first exit code that isn't 0."""
    commands = ([sys.executable, "-m", "fuzz", "--group", group, "--seconds", str(seconds)] for group in checks.GROUPS)
    return next((code for command in commands if (code := subprocess.run(command, check=False).returncode)), 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="seconds for each group")
    parser.add_argument("--group", choices=list(checks.GROUPS), help="run only this group")
    parser.add_argument("files", nargs="*", help="run only these inputs")
    given = parser.parse_args()
    KEPT.mkdir(exist_ok=True)
    if given.files:
        fuzz(given.files, list(checks.CHECKS), given.seconds)
    elif given.group:
        group = checks.GROUPS[given.group]
        fuzz([str(seeded(KEPT / f"corpus-{given.group}", group))], group, given.seconds)
    else:
        sys.exit(each(given.seconds))


main()
