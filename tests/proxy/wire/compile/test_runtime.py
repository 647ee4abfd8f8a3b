import copy
import json
import pickle
import struct
from collections.abc import Callable, Generator

import pytest

from proxy.wire.compile import runtime
from proxy.wire.compile.runtime import SplitRead
from proxy.wire.errors import Malformed, Truncated
from proxy.wire.primitives import uvarint
from tests.tables import each_row


def drive(pieces: Generator[None, bytes, SplitRead], chunks: list[bytes]) -> SplitRead:
    """Feeds a split reader until it has all bytes that it needs."""
    next(pieces)
    try:
        for chunk in chunks:
            pieces.send(chunk)
    except StopIteration as done:
        place: SplitRead = done.value
        return place
    raise AssertionError("it wants more")


@pytest.mark.parametrize("value", [300, 70000, 2**32 - 1])
def test_a_varint_split_anywhere_is_read(value: int) -> None:
    first, *rest = uvarint(value)
    chunks = [b"", *[bytes([byte]) for byte in rest]]
    number, buf, at, size = drive(runtime.split_uvarint(first, b"", 0, 0), chunks)
    assert (number, buf, at, size) == (value, chunks[-1], 1, 1)


def test_a_split_varint_has_five_bytes_at_most() -> None:
    with pytest.raises(Malformed):
        drive(runtime.split_uvarint(0x80, b"", 0, 0), [b"\x80\x80\x80\x80\x80"])


def test_an_integer_split_anywhere_is_read_after_a_step() -> None:
    place = drive(runtime.split_int(4, b"abc", 6, 3), [b"xyz\xff", b"\xff", b"\xff\xfe!!"])
    assert place == (-2, b"\xff\xfe!!", 2, 4)


def test_python_errors_become_truncated_or_malformed() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"\xff".decode()
    assert isinstance(runtime.explain(caught.value, "Fetch", 1, at=5, size=9), Malformed)
    assert isinstance(runtime.explain(caught.value, "Fetch", 1, at=10, size=9), Truncated), "the text was cut short"
    for fault in (IndexError(), struct.error()):
        error = runtime.explain(fault, "Fetch", 1, at=99, size=9)
        assert (type(error), error.api, error.version, error.offset) == (Truncated, "Fetch", 1, 9)


def test_an_error_of_the_family_gets_its_message_and_keeps_its_kind() -> None:
    error = runtime.explain(Malformed("why", offset=3), "Fetch", 1, at=5, size=9)
    assert (type(error), error.reason, error.api, error.version, error.offset) == (Malformed, "why", "Fetch", 1, 3)
    assert runtime.explain(Truncated("why", offset=50), "Fetch", 1, at=5, size=9).offset == 9


def test_many_numbers_are_read_only_if_they_are_there() -> None:
    assert runtime.many("h", 2, 3, b"_\0\1\0\2\0\3", 1) == [1, 2, 3]
    assert runtime.many("16s", 16, 2, bytes(32), 0) == [bytes(16)] * 2
    with pytest.raises(Truncated):
        runtime.many("h", 2, 4, b"_\0\1\0\2\0\3", 1)


ABSENT = runtime.Absent(leader_id=-1, leader_epoch=-1)


@each_row(
    "change",
    [
        lambda value: value.__setitem__("leader_id", 1),
        lambda value: value.__delitem__("leader_id"),
        lambda value: value.__ior__({"leader_id": 1}),
        lambda value: value.update(leader_id=1),
        lambda value: value.setdefault("more", 1),
        lambda value: value.pop("leader_id"),
        lambda value: value.popitem(),
        lambda value: value.clear(),
    ],
)
def test_the_shared_absent_struct_can_not_be_changed(change: Callable[[dict[str, int]], object]) -> None:
    with pytest.raises(TypeError):
        change(ABSENT)
    assert ABSENT == {"leader_id": -1, "leader_epoch": -1}


@each_row(
    "copied",
    [
        dict,
        copy.copy,
        copy.deepcopy,
        dict.copy,
        lambda value: value | {},
        lambda value: pickle.loads(pickle.dumps(value)),
        lambda value: json.loads(json.dumps(value)),
    ],
)
def test_a_copy_of_it_is_a_plain_dict(copied: Callable[[dict[str, int]], dict[str, int]]) -> None:
    assert copied(ABSENT) == ABSENT
    assert type(copied(ABSENT)) is dict


def test_tags_are_written_ascending() -> None:
    assert runtime.write_tags([(5, b"five")], {200: b"", 1: b"one"}) == b"\x03\x01\x03one\x05\x04five\xc8\x01\x00"


def test_an_id_has_sixteen_bytes() -> None:
    assert runtime.uuid(bytes(16)) == bytes(16)
    assert runtime.pack_many("16s", [bytes(16), b"\1" * 16]) == bytes(16) + b"\1" * 16
    for wrong in (b"", bytes(15), bytes(17)):
        with pytest.raises(Malformed):
            runtime.uuid(wrong)
