"""The headers that a collector wants, in a file: they may be secrets, which no command line should have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from proxy.limited_files import UnusableFile, text_of

# names of headers (RFC 9110), and values that a header may have
_NAME, _VALUE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), re.compile(r"[\x20-\x7e\t]*")


class WrongHeaders(ValueError):
    """A file of headers can't be used. The message says why, and follows the file's name."""

    right = "Authorization: Bearer ..."


def headers_in(path: Path) -> Mapping[str, str]:
    """The headers in a file, `NAME: VALUE` a line. Errors: WrongHeaders; it does not repeat values."""
    try:
        lines = [line.strip() for line in text_of(path).splitlines()]
    except UnusableFile as error:
        raise WrongHeaders(str(error)) from None
    found = {}
    for number, line in enumerate(lines, 1):
        name, colon, value = line.partition(":")
        if not line or line.startswith("#"):
            continue
        if not colon or not _NAME.fullmatch(name.strip()) or not _VALUE.fullmatch(value.strip()):
            raise WrongHeaders(f"has no header in line {number}")
        found[name.strip()] = value.strip()
    return found
