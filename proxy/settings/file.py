"""Reads a settings file. Any file, of whatever type and contents, leads to settings or to an error of one line.

    a file, also behind symbolic links     read at the start, and again at SIGHUP
    a pipe or a terminal                   read once, at the start, for example /dev/stdin or `<(...)`. At SIGHUP the
                                           contents are gone, so the reader raises an error instead of waiting

A file system that hangs blocks the reader. So the file is read in a thread at SIGHUP (`proxy.net.reloading`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proxy.limited_files import UnusableFile, content_of, tables
from proxy.schema.errors import BadSetting
from proxy.terminal import printable

EXAMPLE = "right would be a file as in docs/settings.md"


def read_file(path: Path, *, again: bool = False) -> dict[str, Any]:
    """The TOML tables of a file. Blocks.

    Args:
        again: True if the file has been read before; then it must be a regular file.

    Raises:
        BadSetting: the file can't be read, or is no TOML.
    """
    refusal = "is no regular file, so it can be read at the start only" if again else None
    try:
        return tables(content_of(path, refusal=refusal))
    except UnusableFile as error:
        raise BadSetting(f"--config {printable(path)} {error}; {EXAMPLE}") from error
