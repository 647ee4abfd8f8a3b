"""Text that could control a terminal, and a pseudo-terminal that records the bytes that a terminal gets."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

# a word to find the text by, without a letter that any escaping changes
WORD = "owned"
# a forged line, if a line feed gets through
FORGED = "FORGED"
# text for a column, a tag or a string of the protocol: valid UTF-8
TEXT = "".join(
    (
        *(WORD, "\x1b]0;title\x07", "\x1b[2J", "\x1b[7;95m", "\0\b\v\f\r", f"\n{FORGED}", "\t\x7f"),
        *("\x9b31m", "\x85\x90\x9d", "\u202e\u2066\u061c", "\u200b\u200d\ufeff\xad", "\u2028\u2029\xa0\u3000"),
        *("\u0378\ue000\U0010ffff\U000e0041", "\ufe0f\u3164\u2800", "\u0301" * 20),
        *("[/red][bold][link=file:///etc/passwd]", "\\", "\\u001b", "'\"", "é日本"),
    )
)
# text for a file's name, within its longest length; and a name that is not UTF-8, in Python's form
NAME = "".join((WORD, "\x1b]0;t\x07\x1b[7;95m", f"\n{FORGED}", "\x7f\x9b31m\u202e\u200b\u2028\ue000[red]\\"))
RAW_NAME = NAME + "\udcff"

# the styles of this program's own tables, and rich's spinner
OWN = re.compile(r"\x1b\[(?:0|1|2|3|3[1-6]|1;3[1-6]|2;3)?m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A")
# everything other than visible letters, line ends and blanks
_OBEYED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xa0\xad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\u2800\u3000\u3164"
    "\ufe00-\ufe0f\ufeff\u0378\ue000-\uf8ff\ud800-\udfff\U000e0000-\U0010ffff]|\u0301{4,}"
)


def sent_to_a_terminal(program: str, *arguments: str, folder: Path | None = None) -> str:
    """Returns what a Python program writes to its outputs, which are one terminal of 200 columns."""
    master, slave = os.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "200", "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder) as process:
        os.close(slave)
        written = _all_of(master)
        assert process.wait() == 0, written
    return written


def _all_of(master: int) -> str:
    """Returns everything until the last process has closed its side."""
    pieces = []
    # Linux reports a closed other side by EIO
    with suppress(OSError):
        while piece := os.read(master, 1 << 16):
            pieces.append(piece)
    os.close(master)
    return b"".join(pieces).decode("utf-8", "surrogateescape")


def obeyed(written: str) -> list[str]:
    """Returns what a terminal would have obeyed, and the forged lines."""
    forged = [line for line in written.splitlines() if line.startswith(FORGED)]
    return _OBEYED.findall(OWN.sub("", written)) + forged
