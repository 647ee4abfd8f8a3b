"""Tests of encrypted logs: what is read with the key, and without; and that no nonce is used twice."""

import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.files import Folder
from recorder.capture import spool
from recorder.capture.cipher import ADDED_SIZE, ENCRYPTED_KINDS, LogCipher, in_clear, new_salt
from recorder.capture.segments import SegmentReader
from recorder.capture.segments import segments as numbers
from recorder.capture.session import RecordSettings
from recorder.capture.spool import Entry, EntryKind
from recorder.capture.writer import Log
from tests.recorder.capture.test_spool import entries

KEY = bytes(range(32))
kinds = st.sampled_from(list(EntryKind))


def item(number: int, data: bytes, kind: int = EntryKind.BYTES) -> spool.Item:
    return (int(kind), 0, 1, 100 * number, 5, data, ())


def stored_by(cipher: LogCipher, kind: int, data: bytes, head: bytes, segment: int) -> bytes:
    return b"".join(cipher.encrypted(kind, data, head, segment))


@given(kinds, st.binary(max_size=60), st.binary(max_size=60), st.integers(1, 1 << 62))
def test_the_key_reads_what_it_wrote_in_its_place_alone(kind: int, data: bytes, head: bytes, segment: int) -> None:
    cipher = LogCipher(KEY)
    stored = stored_by(cipher, kind, data, head, segment)
    assert len(stored) == len(data) + ADDED_SIZE
    assert LogCipher(KEY).decrypted(kind, stored, head, segment) == data
    assert LogCipher(KEY[::-1]).decrypted(kind, stored, head, segment) is None
    assert cipher.decrypted(kind, stored, head + b"\0", segment) is None
    assert cipher.decrypted(kind, stored, head, segment + 1) is None


@given(kinds, st.binary(max_size=40), st.data())
def test_no_changed_bit_is_read(kind: int, data: bytes, drawn: st.DataObject) -> None:
    cipher = LogCipher(KEY)
    stored = bytearray(stored_by(cipher, kind, data, b"head", 1))
    at = drawn.draw(st.integers(0, len(stored) * 8 - 1))
    stored[at // 8] ^= 1 << at % 8
    assert cipher.decrypted(kind, bytes(stored), b"head", 1) is None
    cut = drawn.draw(st.integers(0, len(stored) - 1))
    assert cipher.decrypted(kind, bytes(stored[:cut]), b"head", 1) is None


@given(kinds, st.binary(min_size=16, max_size=60))
def test_without_the_key_traffic_is_a_number_of_bytes(kind: int, data: bytes) -> None:
    stored = stored_by(LogCipher(KEY), kind, data, b"head", 1)
    assert (data in stored) == (kind not in ENCRYPTED_KINDS)
    assert in_clear(kind, stored) == (bytes(len(data)) if kind in ENCRYPTED_KINDS else data)


def test_what_holds_traffic_is_encrypted() -> None:
    clear = {*EntryKind} - ENCRYPTED_KINDS
    assert {kind.name for kind in clear} == {
        *(
            "OPENED",
            "OMITTED",
            "GAP",
            "LOGIN",
            "END_OF_STREAM",
            "CLOSED",
            "CLOCK",
            "NODE",
            "END",
            "INVENTORY",
            "CLUSTER",
            "SETTINGS",
            "IMPORTED",
        )
    }


@given(entries(), st.integers(0, (1 << 32) - 1))
def test_entries_are_read_as_they_were_written(written: Entry, seed: int) -> None:
    cipher = LogCipher(KEY)
    (head,) = spool.entry_fields([written[:-1]], [written.number])
    stored = stored_by(cipher, written.kind, written.data, head, 7)
    log = spool.encoded_entry(written._replace(data=stored)[:-1], written.number, seed)

    def opened(kind: int, stored: bytes, head: bytes) -> bytes | None:
        return cipher.decrypted(kind, stored, head, 7)

    assert [entry for entry, _ in spool.entries(log, 0, seed, opened)] == [written]


class FailingDisk:
    """Takes a part of each write at random, or none."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self, descriptor: int, buffers: Any) -> int:
        if self._random.random() < 0.3:
            raise OSError(28, "No space left on device")
        whole = b"".join(buffers)
        return os.write(descriptor, whole[: self._random.randint(1, len(whole))])


@pytest.mark.parametrize("seed", range(5))
def test_no_nonce_is_used_twice_whatever_the_disk_does(tmp_path: Path, seed: int) -> None:
    rng, cipher = random.Random(seed), LogCipher(KEY)
    made: list[tuple[bytes, bytes]] = []
    encrypt = cipher.encrypted

    def noted(kind: int, data: bytes, head: bytes, segment: int) -> tuple[bytes, bytes]:
        count, stored = encrypt(kind, data, head, segment)
        made.append((count, stored))
        return count, stored

    cipher.encrypted = noted  # type: ignore[method-assign]
    with Folder.at(tmp_path) as folder:
        settings = RecordSettings(segment=600)
        log = Log(folder, settings, writev=FailingDisk(seed), cipher=cipher)
        number = 0
        while number < 60:
            group = [item(number + place, rng.randbytes(rng.randint(0, 90))) for place in range(rng.randint(1, 4))]
            try:
                log.append(group)
            except OSError:
                while log.interrupted:
                    try:
                        log.resume()
                    except OSError:
                        continue
            number += len(group)
            if rng.random() < 0.2:
                # a segment that can't begin is tried again
                (tmp_path / f".{log.segment + 1:08d}.log").mkdir()
                with pytest.raises(OSError, match=r"."):
                    log.roll_if_due(1e12)
                (tmp_path / f".{log.segment + 1:08d}.log").rmdir()
            log.roll_if_due(0)
        log.close()
        in_log = [entry for number in numbers(folder) for entry in SegmentReader(folder, number, LogCipher(KEY)).read()]
    assert len({count for count, _ in made}) == len(made)
    assert len([entry for entry in in_log if entry.kind == EntryKind.BYTES]) == number


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_a_state_is_read_with_its_key_its_salt_and_what_stands_beside_it(state: bytes, clear: bytes) -> None:
    cipher, salt = LogCipher(KEY), new_salt()
    stored = cipher.encrypted_state(state, clear, salt)
    assert LogCipher(KEY).decrypted_state(stored, clear, salt) == state
    assert LogCipher(KEY[::-1]).decrypted_state(stored, clear, salt) is None
    assert cipher.decrypted_state(stored, clear + b"\0", salt) is None
    assert cipher.decrypted_state(stored, clear, new_salt()) is None
    # a compactor that makes a state again makes other bytes: with another key
    assert cipher.encrypted_state(state, clear, new_salt()) != stored


def test_no_text_shows_the_key_and_each_session_has_its_own() -> None:
    assert repr(LogCipher(b"secret of thirty-two bytes......")) == "<LogCipher>"
    assert LogCipher.new().key != LogCipher.new().key
    assert len(LogCipher.new().key) == 32
