"""The hash that stands for a value: HMAC-SHA-256 with a secret key, cut to 16 bytes.

Equal values have equal hashes, whatever their topic and whether they are a key, a value or that of a header, so joins
still work. Null stays null. Without the key nobody can try out values: a plain hash of a card number would be found
within hours. 16 bytes are enough that two values of a capture never share a hash by chance (2**64 values would do).
"""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

from proxy.limited_files import UnusableFile, content_of

# bytes of a hash
HASH_SIZE = 16
# bytes of a key at least: those of the hash's own output (RFC 2104)
SMALLEST_KEY = 32


class Hasher:
    """Hashes values with one key. The key is in no text that this object prints."""

    __slots__ = ("_begun",)

    def __init__(self, key: bytes) -> None:
        """Errors: ValueError for a key of less than SMALLEST_KEY bytes."""
        if len(key) < SMALLEST_KEY:
            raise ValueError(f"a key of {len(key)} bytes, {SMALLEST_KEY} are needed at least")
        # a copy of it takes two thirds of the time that beginning with the key takes for each value
        self._begun = hmac.new(key, digestmod="sha256")

    def __repr__(self) -> str:
        return "<Hasher>"

    def hashed(self, value: bytes | None) -> bytes | None:
        """The hash of a value; null stays null."""
        if value is None:
            return None
        begun = self._begun.copy()
        begun.update(value)
        return begun.digest()[:HASH_SIZE]


def read_key(path: Path) -> bytes:
    """The key in a file that its owner alone can read: all bytes of the file. Blocks.

    Errors: UnusableFile with the reason, which follows the file's name.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise UnusableFile(f"can't be read ({error.strerror or error})") from error
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UnusableFile(f"can be read by others (mode {stat.S_IMODE(mode):04o}): chmod 600 makes it yours alone")
    key = content_of(path, refusal="is no plain file")
    if len(key) < SMALLEST_KEY:
        raise UnusableFile(f"has {len(key)} bytes, a key needs {SMALLEST_KEY} at least: head -c 32 /dev/urandom > FILE")
    return key
