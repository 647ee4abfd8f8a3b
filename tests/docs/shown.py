"""The commands that pages show, run as a reader would run them: each fence of the language `bash`, in their order.

A fence without a language is not run: it needs what a test lacks, such as a cluster of the reader's own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Collection, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
# what runs in the background ends with the script, however it ends
FIRST = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"


def fences(text: str, languages: Collection[str]) -> list[str]:
    """The text of each fence of these languages ("" for none), also within a list."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(inside) for _, language, inside in found if language in languages]


def run(page: str, folder: Path, replaced: Mapping[str, str] | None = None) -> str:
    """Runs the commands of a page in a folder, with other words in place of some. Returns what they print."""
    script = "\n".join(fences((ROOT / "docs" / page).read_text(), {"bash"}))
    for old, new in (replaced or {}).items():
        assert old in script
        script = script.replace(old, new)
    return bash(script, folder)


def bash(script: str, folder: Path) -> str:
    """Runs a script in a folder, with the project's commands. Returns what it prints.

    Errors: AssertionError, with the output, if a command fails.
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", FIRST + script],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
