"""Encrypts a session's log and states, with a key that no disk ever holds.

Used where the settings hash records: the log holds frames as they arrived, and only the compactor hashes them. The key
is made when the session begins, lives in the memory of the proxy's process and of its compactor's, and passes between
them by an inherited pipe. If both have ended before the log is compacted, what it holds is gone for everybody.

    encrypted          the data of entries that hold traffic, or states of conversations (ENCRYPTED_KINDS); the
                       compactor's states. AES-256-GCM
    authenticated      all entries' heads, and the data of all other entries, which stay in clear: openings, ends, gaps,
                       numbers of bytes. They tell to the byte what is lost if the key is

AES-GCM tells the key's stream apart by nonces, and is broken once a key meets one of them twice:

    entries            one key, which one object of one process uses; it counts up for each encryption, and the count is
                       the nonce. A write that failed repeats the bytes that were made, or encrypts with a further count
    states             a compactor can't know the counts of one that it replaces, so each state has a key of its own,
                       derived (HKDF) with 32 random bytes that stand beside it; its nonce is 0

`cryptography` is an extra (`hash`): no other recording needs it, and it is imported when a cipher is made.
"""

from __future__ import annotations

import secrets
from itertools import count
from typing import Any

from recorder.capture.spool import OF_STREAMS, EntryKind

KEY_SIZE = 32
# the entries whose data are encrypted; those of all others tell nothing that `events` don't tell in clear
ENCRYPTED_KINDS = frozenset({*OF_STREAMS, EntryKind.OWN_ANSWER, EntryKind.RESYNC, EntryKind.CHECKPOINT})
# an entry's count stands before its data, and their tag behind them
_COUNT_SIZE, _TAG_SIZE = 8, 16
ADDED_SIZE = _COUNT_SIZE + _TAG_SIZE
_NONCE_SIZE = 12
SALT_SIZE = 32


class LogCipher:
    """The cipher of one session. Its texts don't show the key.

    Errors of the constructor: ModuleNotFoundError without `cryptography`.
    """

    def __init__(self, key: bytes) -> None:
        from cryptography.exceptions import InvalidTag

        self._key = key
        self._invalid_tag = InvalidTag
        self._entries = _aes_gcm(key, b"", b"kafka-wiretap log")
        self._counts = count()

    @classmethod
    def new(cls) -> LogCipher:
        """The cipher of a session that begins."""
        return cls(secrets.token_bytes(KEY_SIZE))

    def __repr__(self) -> str:
        return "<LogCipher>"

    @property
    def key(self) -> bytes:
        """The key, for the pipe to the compactor alone."""
        return self._key

    def encrypted(self, kind: int, data: bytes, head: bytes, segment: int) -> tuple[bytes, bytes]:
        """The data of an entry as the log holds them: their count, and the rest, which is not copied.

        `head`: the fields before them, which are authenticated.
        """
        number = next(self._counts).to_bytes(_COUNT_SIZE, "big")
        nonce, head = _nonce(number), segment.to_bytes(8, "big") + head
        if kind in ENCRYPTED_KINDS:
            return number, self._entries.encrypt(nonce, data, head)
        return number, data + self._entries.encrypt(nonce, b"", head + data)

    def decrypted(self, kind: int, stored: bytes, head: bytes, segment: int) -> bytes | None:
        """The data of an entry that the log holds as `stored`; None if they, or the head, are not genuine."""
        if len(stored) < ADDED_SIZE:
            return None
        nonce, head = _nonce(stored[:_COUNT_SIZE]), segment.to_bytes(8, "big") + head
        try:
            if kind in ENCRYPTED_KINDS:
                return bytes(self._entries.decrypt(nonce, memoryview(stored)[_COUNT_SIZE:], head))
            data = stored[_COUNT_SIZE:-_TAG_SIZE]
            self._entries.decrypt(nonce, stored[-_TAG_SIZE:], head + data)
        except self._invalid_tag:
            return None
        return data

    def encrypted_state(self, state: bytes, clear: bytes, salt: bytes) -> bytes:
        """A state, encrypted. `clear`: what stands beside it, and is authenticated; `salt`: from `new_salt`."""
        made: bytes = self._of_state(salt).encrypt(bytes(_NONCE_SIZE), state, clear)
        return made

    def decrypted_state(self, stored: bytes, clear: bytes, salt: bytes) -> bytes | None:
        """The state that is stored encrypted; None if it is not as it was written, or another key was used."""
        try:
            return bytes(self._of_state(salt).decrypt(bytes(_NONCE_SIZE), stored, clear))
        except self._invalid_tag:
            return None

    def _of_state(self, salt: bytes) -> Any:
        return _aes_gcm(self._key, salt, b"kafka-wiretap state")


def new_salt() -> bytes:
    """The random bytes that make the key of one state."""
    return secrets.token_bytes(SALT_SIZE)


def in_clear(kind: int, stored: bytes) -> bytes:
    """What can be read of an entry's data without the key: as many zeros as there were bytes, for encrypted kinds."""
    size = max(len(stored) - ADDED_SIZE, 0)
    return bytes(size) if kind in ENCRYPTED_KINDS else stored[_COUNT_SIZE : _COUNT_SIZE + size]


def _nonce(number: bytes) -> bytes:
    return number.rjust(_NONCE_SIZE, b"\0")


def _aes_gcm(key: bytes, salt: bytes, purpose: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return AESGCM(HKDF(SHA256(), KEY_SIZE, salt, purpose).derive(key))
