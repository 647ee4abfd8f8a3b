"""The commands that pages show, run as a reader would run them: each fence of the language `bash`, in their order.

A fence without a language has commands that no test runs; `plays.NOT_RUN` has the reasons.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "deploy").rglob("*.md")])
# a page with thirty commands that ask an engine, on a busy machine
SECONDS = 3600
# what runs in the background ends with the script, however it ends
FIRST = r"""
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
# each command of the page stands before what it prints
trap 'echo "$ $BASH_COMMAND"' DEBUG
# begin PATTERN COMMAND...: starts a command that goes on for ever, and waits until it has said what matches
begin() {
    local pattern=$1 said
    shift
    said=$(mktemp .said.XXXXXX)
    "$@" > "$said" 2>&1 &
    until grep -qE -- "$pattern" "$said"; do
        kill -0 $! || { cat "$said"; return 1; }
        sleep 0.1
    done
    cat "$said"
}
# until_said PATTERN COMMAND...: likewise, and ends the command
until_said() {
    begin "$@"
    kill $!
    wait $! || true
}
# until_there FOLDER: looks into a capture until it is there
until_there() {
    until kafka-wiretap inspect "$1"; do sleep 0.5; done
}
"""


def fences(text: str, languages: Collection[str]) -> list[str]:
    """The text of each fence of these languages ("" for none), also within a list."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(inside) for _, language, inside in found if language in languages]


def run(page: Path, folder: Path, first: str = "", replaced: Mapping[str, str] | None = None) -> str:
    """Runs the commands of a page in a folder, behind others, with other words in place of some.

    Returns: what they print.
    """
    script = "\n".join(fences(page.read_text(), {"bash"}))
    for old, new in (replaced or {}).items():
        assert old in script, old
        script = script.replace(old, new)
    return bash(f"{first}\n{script}", folder)


def bash(script: str, folder: Path) -> str:
    """Runs a script in a folder, with the project's commands. Returns what it prints.

    Errors: AssertionError, with the output, if a command fails.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with subprocess.Popen(
        ["bash", "-c", FIRST + script],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            printed, _ = child.communicate(timeout=SECONDS)
        finally:
            # whatever is left, also where the test was ended
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 0, printed
    return printed
