"""Files of settings that a user names: the size of a file is limited, and so is the time to parse its TOML.

The path may lead to anything: a device that never ends, a capture, a key of a million names. The worst outcome is an
error in one sentence.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

# thousands of clusters take less; a longer file is a mistake, such as a device that never ends
MAX_BYTES = 16 * 1024 * 1024
# The most names in a dotted key; settings have five. The parser keeps all names before each, so many take long
MAX_NAMES = 32
_NAME = rb"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
# matches only from the first name of a key, so that each name is looked at once
_TOO_MANY_NAMES = re.compile(
    rb"(?<![A-Za-z0-9_.\"'-])" + _NAME + rb"(?:[ \t]*+\.[ \t]*+" + _NAME + rb"){%d}" % MAX_NAMES
)


class UnusableFile(ValueError):
    """A file can't be used as settings. The text gives the reason, and follows the file's name: "is no TOML (...)"."""


def content_of(path: Path, most: int | None = None, *, refusal: str | None = None) -> bytes:
    """The bytes of the file at `path`. Blocks.

    `most`: the largest size in bytes, by default `MAX_BYTES`. `refusal`: the error's text for a file that is not a
    regular one, such as a pipe; None means that any file is read.
    Errors: UnusableFile; ValueError for a path that can't exist.
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
    # without O_NONBLOCK, opening a pipe waits for its writer
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
    """The tables of a TOML text. Errors: UnusableFile."""
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
        # Python's own limit of 4300 digits raises it
        raise UnusableFile("is no TOML (a number of very many digits)") from None
