"""By which keys a capture's records are hashed: a key that is given to a command is held against them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds

from proxy.limited_files import UnusableFile
from recorder.capture import frames as c
from recorder.capture.reader import files, row_groups
from recorder.capture.record_rules import read_hash_key
from recorder.capture.remote import Place
from recorder.hashing.hasher import Hasher

_BEGINNINGS = (ds.field(c.KIND) == c.EVENT_SESSION) & ds.field(c.DETAIL).is_valid()


def hasher_of(folder: Place, path: Path) -> Hasher:
    """What hashes as the capture's records were hashed, by the key in a file.

    Errors: UnusableFile for a file that is no key, or not that of this capture; the errors of `reader.row_groups`.
    """
    hasher = Hasher(read_hash_key(path))
    known = {*_fingerprints(folder)}
    if not known:
        raise UnusableFile("is no key of this capture, whose records are not hashed")
    if hasher.fingerprint not in known:
        raise UnusableFile("is not the key by which this capture's records are hashed")
    return hasher


def is_hashed(folder: Place) -> bool:
    """True if records of the capture are hashed. Errors: as of `reader.row_groups`."""
    return any(_fingerprints(folder))


def _fingerprints(folder: Place) -> Iterator[str]:
    for file in files(folder, c.EVENTS_FOLDER):
        for table in row_groups(file, [c.DETAIL], where=_BEGINNINGS):
            for detail in table[c.DETAIL].to_pylist():
                found = json.loads(detail)
                if isinstance(found, dict) and isinstance(found.get(c.HASH_KEY), str):
                    yield found[c.HASH_KEY]
