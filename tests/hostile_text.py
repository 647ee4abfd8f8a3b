"""Text that could control a terminal, and a pseudo-terminal that records the bytes that a terminal gets."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

# a word to find it by, without a letter that any escaping changes
WORD = "owned"
# a line of somebody else's, should a line feed get through
FORGED = "FORGED"
# what may stand in a column, a tag or a string of the protocol: it is UTF-8
TEXT = "".join(
    (
        *(WORD, "\x1b]0;title\x07", "\x1b[2J", "\x1b[7;95m", "\0\b\v\f\r", f"\n{FORGED}", "\t\x7f"),
        *("\x9b31m", "\x85\x90\x9d", "\u202e\u2066\u061c", "\u200b\u200d\ufeff\xad", "\u2028\u2029\xa0\u3000"),
        *("\u0378\ue000\U0010ffff\U000e0041", "\ufe0f\u3164\u2800", "\u0301" * 20),
        *("[/red][bold][link=file:///etc/passwd]", "\\", "\\u001b", "'\"", "é日本"),
    )
)
# what may stand in a file's name, not longer than one may be; and one that is no UTF-8, as Python holds it
NAME = "".join((WORD, "\x1b]0;t\x07\x1b[7;95m", f"\n{FORGED}", "\x7f\x9b31m\u202e\u200b\u2028\ue000[red]\\"))
RAW_NAME = NAME + "\udcff"

# what this program's own tables are dressed with, and rich's spinner
OWN = re.compile(r"\x1b\[(?:0|1|2|3|3[1-6]|1;3[1-6]|2;3)?m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A")
# all else that is more than visible letters, line ends and blanks
_OBEYED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xa0\xad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\u2800\u3000\u3164"
    "\ufe00-\ufe0f\ufeff\u0378\ue000-\uf8ff\ud800-\udfff\U000e0000-\U0010ffff]|\u0301{4,}"
)


def sent_to_a_terminal(program: str, *arguments: str, folder: Path | None = None) -> str:
    """What a Python program writes to both its outputs, which are one terminal of 200 columns."""
    master, slave = os.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "200", "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder) as process:
        os.close(slave)
        written = _all_of(master)
        assert process.wait() == 0, written
    return written


def _all_of(master: int) -> str:
    """Everything up to the moment in which the last process has closed its side."""
    pieces = []
    # EIO is how Linux says that the other side is closed
    with suppress(OSError):
        while piece := os.read(master, 1 << 16):
            pieces.append(piece)
    os.close(master)
    return b"".join(pieces).decode("utf-8", "surrogateescape")


def obeyed(written: str) -> list[str]:
    """What a terminal would have obeyed of it; and lines that others have forged."""
    forged = [line for line in written.splitlines() if line.startswith(FORGED)]
    return _OBEYED.findall(OWN.sub("", written)) + forged
