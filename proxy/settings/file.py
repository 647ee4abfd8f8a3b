"""A file of settings: its bytes, and the tables that they say. Whatever it is, the worst outcome is a sentence.

What it may be:

    a file, also behind symbolic links     read at the start, and again at SIGHUP
    a pipe or a terminal                   read once, at the start: what has been read of it is gone. So /dev/stdin and
                                           `<(...)` will do, and at SIGHUP nothing waits for somebody to write into it

A file on a file system that hangs keeps whoever reads it: at SIGHUP that is a thread (`proxy.net.reloading`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proxy.limited_files import UnusableFile, content_of, tables
from proxy.schema.errors import BadSetting
from proxy.terminal import printable

EXAMPLE = "right would be a file as in docs/settings.md"


def read_file(path: Path, *, again: bool = False) -> dict[str, Any]:
    """The tables of a file. Blocks.

    Args:
        again: it has been read before.

    Raises:
        BadSetting: it can't be read (again), or is no TOML.
    """
    refusal = "is no regular file, so it can be read at the start only" if again else None
    try:
        return tables(content_of(path, refusal=refusal))
    except UnusableFile as error:
        raise BadSetting(f"--config {printable(path)} {error}; {EXAMPLE}") from error
