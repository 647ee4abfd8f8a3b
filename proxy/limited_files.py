"""Files of settings that a user names: no more of one is read than settings take, and no TOML takes long to parse.

Whatever stands there (a device that never ends, a capture, a key of a million names), the worst outcome is a sentence.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

# thousands of clusters take less; what is longer is a mistake, such as a device that never ends
MAX_BYTES = 16 * 1024 * 1024
# names that a key may have between its dots: settings have five. For each more the parser remembers all before it
MAX_NAMES = 32
_NAME = rb"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
# begins where a name does, so that each is looked at once
_TOO_MANY_NAMES = re.compile(
    rb"(?<![A-Za-z0-9_.\"'-])" + _NAME + rb"(?:[ \t]*+\.[ \t]*+" + _NAME + rb"){%d}" % MAX_NAMES
)


class UnusableFile(ValueError):
    """A file can't be used as settings. The text says why, and stands behind the file's name: "is no TOML (...)"."""


def content_of(path: Path, most: int | None = None, *, refusal: str | None = None) -> bytes:
    """The bytes of the file at `path`, `most` of them (by default `MAX_BYTES`). Blocks.

    `refusal`: what is said of a file that is no regular one, such as a pipe; None: any is read.
    Errors: UnusableFile; ValueError for a path that can't be.
    """
    most = MAX_BYTES if most is None else most
    try:
        content = _begin_of(path, most + 1, refusal)
    except OSError as error:
        raise UnusableFile(f"can't be read ({error.strerror or error})") from error
    if len(content) > most:
        raise UnusableFile(f"is longer than {most >> 20} MiB")
    return content


def _begin_of(path: Path, most: int, refusal: str | None) -> bytes:
    # to open a pipe that nobody writes into would wait
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if refusal else 0))
    try:
        if refusal and not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnusableFile(refusal)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def text_of(path: Path) -> str:
    """The text of the file at `path`. Blocks. Errors: UnusableFile."""
    try:
        return content_of(path).decode()
    except UnicodeDecodeError:
        raise UnusableFile("is no UTF-8 text") from None


def tables(content: bytes) -> dict[str, Any]:
    """What TOML says. Errors: UnusableFile."""
    found = _TOO_MANY_NAMES.search(content)
    if found is not None:
        line = content.count(b"\n", 0, found.start()) + 1
        raise UnusableFile(f"is no TOML (a key of more than {MAX_NAMES} names, at line {line})")
    try:
        return tomllib.loads(content.decode())
    except RecursionError:
        raise UnusableFile("is no TOML (its lists or tables nest too deep)") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnusableFile(f"is no TOML ({error})") from error
    except ValueError:
        # the error of Python's own limit of 4300 digits
        raise UnusableFile("is no TOML (a number of very many digits)") from None
