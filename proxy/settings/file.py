"""A file of settings: its bytes, and the tables that they say. Whatever it is, the worst outcome is a sentence.

What it may be:

    a file, also behind symbolic links     read at the start, and again at SIGHUP
    a pipe or a terminal                   read once, at the start: what has been read of it is gone. So /dev/stdin and
                                           `<(...)` will do, and at SIGHUP nothing waits for somebody to write into it

A file on a file system that hangs keeps whoever reads it: at SIGHUP that is a thread (`proxy.net.reloading`).
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from proxy.schema.errors import BadSetting
from proxy.terminal import printable

# thousands of clusters take less; what is longer is a mistake, such as a device that never ends
MAX_BYTES = 16 * 1024 * 1024
# names that a key may have between its dots: settings have five. For each more the parser remembers all before it
MAX_NAMES = 32
_NAME = rb"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
# begins where a name does, so that each is looked at once
_TOO_MANY_NAMES = re.compile(
    rb"(?<![A-Za-z0-9_.\"'-])" + _NAME + rb"(?:[ \t]*+\.[ \t]*+" + _NAME + rb"){%d}" % MAX_NAMES
)
EXAMPLE = "right would be a file as in docs/settings.md"


def read_file(path: Path, *, again: bool = False) -> dict[str, Any]:
    """The tables of a file. Blocks.

    Args:
        again: it has been read before.

    Raises:
        BadSetting: it can't be read (again), or is no TOML.
    """
    try:
        content = _content(path, again=again)
    except OSError as error:
        raise BadSetting(f"--config {printable(path)} can't be read ({error.strerror}); {EXAMPLE}") from error
    if len(content) > MAX_BYTES:
        raise BadSetting(f"--config {printable(path)} is longer than {MAX_BYTES >> 20} MiB; {EXAMPLE}")
    try:
        return _tables(content)
    except ValueError as error:
        raise BadSetting(f"--config {printable(path)} is no TOML ({error}); {EXAMPLE}") from error


def _content(path: Path, *, again: bool) -> bytes:
    """The file's bytes, up to one more than the limit. Raises OSError, BadSetting."""
    # to open a pipe that nobody writes into would wait
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if again else 0))
    try:
        if again and not stat.S_ISREG(os.fstat(descriptor).st_mode):
            shown = printable(path)
            raise BadSetting(f"--config {shown} is no regular file, so it can be read at the start only; {EXAMPLE}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)


def _tables(content: bytes) -> dict[str, Any]:
    """Raises ValueError, of which the message says why."""
    found = _TOO_MANY_NAMES.search(content)
    if found is not None:
        line = content.count(b"\n", 0, found.start()) + 1
        raise ValueError(f"a key of more than {MAX_NAMES} names, at line {line}")
    try:
        return tomllib.loads(content.decode())
    except RecursionError:
        raise ValueError("its lists or tables nest too deep") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        # the error of Python's own limit of 4300 digits
        raise ValueError("a number of very many digits") from None
