"""Tests of varints against Kafka's ByteUtils, kafka-python's and aiokafka's helpers, and at the edges."""

import subprocess
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from random import Random

import aiokafka.record.util
import kafka.record.util
import pytest
from aiokafka.protocol.types import UnsignedVarInt32
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.wire import varints
from proxy.wire.errors import Malformed, Truncated, WireError
from tests.brokers.jars import java
from tests.brokers.kafka import kafka_home
from tests.sweeps import examples

HELPER = Path(__file__).parents[2] / "java" / "Varints.java"
WIDTHS = (16, 32, 64)
widths = pytest.mark.parametrize("bits", WIDTHS)

READ = {"u": varints.read_unsigned, "s": varints.read_signed}
WRITE = {"u": varints.unsigned, "s": varints.signed}


def edges(bits: int) -> list[int]:
    """Returns numbers around every power of two, with either sign."""
    powers = [1 << place for place in range(bits)]
    return [value for value in edges_of(powers) if -(1 << bits - 1) <= value < 1 << bits - 1]


def edges_of(powers: list[int]) -> list[int]:
    return sorted({sign * power + step for power in powers for sign in (1, -1) for step in (-1, 0, 1)})


def asked(lines: list[str]) -> list[str]:
    """Returns the helper's answers, one per line."""
    command = [java(), "-XX:TieredStopAtLevel=1", "-cp", str(kafka_home() / "libs" / "*"), str(HELPER)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.real
def test_bytes_and_sizes_are_those_of_kafkas_byte_utils() -> None:
    cases = [(kind, bits, value) for kind in "us" for bits in (32, 64) for value in edges(bits)]
    cases += [(kind, bits, Random(f"{kind}{bits}").getrandbits(bits - 1)) for kind in "us" for bits in (32, 64)]
    answers = asked([f"{kind}{bits} {value}" for kind, bits, value in cases])
    assert len(answers) == len(cases)
    for (kind, bits, value), answer in zip(cases, answers, strict=True):
        data = WRITE[kind](bits, value)
        assert answer == f"{data.hex()} {varints.varint_size(bits, value, zigzag=kind == 's')}", (kind, bits, value)
        assert READ[kind](bits, data, 0) == (value, len(data))


@pytest.mark.real
def test_kafkas_byte_utils_read_the_same_from_any_bytes_but_for_bits_beyond_the_width() -> None:
    random = Random(9927)
    cases = [
        (kind, bits, bytes(random.choice([0, 1, 127, 128, 129, 255]) for _ in range(random.randint(1, 11))))
        for kind in "us"
        for bits in (32, 64)
        for _ in range(500)
    ]
    answers = asked([f"{kind.upper()}{bits} {data.hex()}" for kind, bits, data in cases])
    ours = [answer_of(kind, bits, data) for kind, bits, data in cases]
    wide = [answer != "error" and mine == "wide" for answer, mine in zip(answers, ours, strict=True)]
    assert 0 < sum(wide) < len(cases) / 2, "Kafka drops such bits"
    for case, answer, mine, differs in zip(cases, answers, ours, wide, strict=True):
        assert differs or answer == mine.replace("wide", "error"), case


def answer_of(kind: str, bits: int, data: bytes) -> str:
    """Returns our answer in the helper's words; "wide" for bits beyond the width."""
    try:
        return "{} {}".format(*READ[kind](bits, data, 0))
    except WireError as error:
        return "wide" if error.reason.endswith(" bits") else "error"


@pytest.mark.parametrize("theirs", [kafka.record.util, aiokafka.record.util], ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("bits", [32, 64])
def test_the_signed_encoding_is_that_of_records_in_other_codecs(theirs: object, bits: int) -> None:
    for value in edges(bits):
        out = bytearray()
        theirs.encode_varint(value, out.append)  # type: ignore[attr-defined]
        assert varints.signed(bits, value) == out
        assert theirs.decode_varint(out, 0) == (value, len(out))  # type: ignore[attr-defined]
        assert varints.varint_size(bits, value, zigzag=True) == theirs.size_of_varint(value)  # type: ignore[attr-defined]


def test_the_unsigned_encoding_is_aiokafkas_for_negative_numbers_too() -> None:
    """aiokafka reads the bits as a number from 0 on."""
    for value in edges(32):
        data = varints.unsigned(32, value)
        assert data == UnsignedVarInt32.encode(value)
        assert UnsignedVarInt32.decode(BytesIO(data)) == value % 2**32


@widths
def test_a_negative_number_takes_all_bytes_in_the_unsigned_encoding(bits: int) -> None:
    most = {16: 3, 32: 5, 64: 10}[bits]
    for value in (-1, -2, -(1 << bits - 1)):
        data = varints.unsigned(bits, value)
        assert len(data) == most
        assert int.from_bytes(value.to_bytes(bits // 8, "big", signed=True), "big") == groups(data)


def groups(data: bytes) -> int:
    """Returns the number in groups of 7 bits, the lowest first."""
    return sum((byte & 127) * 128**place for place, byte in enumerate(data))


@given(st.sampled_from(WIDTHS), st.sampled_from("us"), st.data())
def test_a_written_varint_is_read_back_with_its_size(bits: int, kind: str, data: st.DataObject) -> None:
    value = data.draw(st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) | st.sampled_from(edges(bits)))
    written = WRITE[kind](bits, value)
    assert READ[kind](bits, memoryview(b"__" + written + b"__"), 2) == (value, 2 + len(written))
    assert varints.varint_size(bits, value, zigzag=kind == "s") == len(written)
    assert varints.skip(-(-bits // 7), written, 0) == len(written)
    for size in range(len(written)):
        with pytest.raises(Truncated) as caught:
            READ[kind](bits, written[:size], 0)
        assert caught.value.offset == size


@examples(50)
@given(st.sampled_from(WIDTHS), st.lists(st.integers(-70, 70) | st.integers(-32768, 32767)))
@example(16, [])
@example(16, [-64, 63])
@example(32, [5, 128])
@example(32, [5, 255])
@example(32, [5, 64])
@example(64, [5, -65])
@example(64, [5, 100, -128])
def test_an_array_is_its_values_one_behind_the_other(bits: int, values: list[int]) -> None:
    kinds: list[tuple[Callable[..., bytes], Callable[..., bytes], Callable[..., tuple[list[int], int]]]] = [
        (varints.unsigned, varints.many_unsigned, varints.read_many_unsigned),
        (varints.signed, varints.many_signed, varints.read_many_signed),
    ]
    for one, many, read in kinds:
        written = many(bits, values)
        assert written == b"".join(one(bits, value) for value in values)
        for buf in (written, b"_" + written + b"\x05\xff"):
            at = buf.index(written)
            assert read(bits, len(values), buf, at) == (values, at + len(written))
            assert read(bits, len(values), memoryview(buf), at) == (values, at + len(written))
        with pytest.raises(Truncated):
            read(bits, len(values) + 1, written, 0)


@widths
def test_a_value_without_room_is_malformed(bits: int) -> None:
    for value in (1 << bits - 1, -(1 << bits - 1) - 1):
        for write in (varints.unsigned, varints.signed):
            with pytest.raises(Malformed, match=f"{value} has no room in {bits} bits"):
                write(bits, value)
        for many in (varints.many_unsigned, varints.many_signed):
            with pytest.raises(Malformed, match="has no room"):
                many(bits, [1, value])


@widths
def test_a_varint_too_long_or_too_wide_is_malformed(bits: int) -> None:
    most = {16: 3, 32: 5, 64: 10}[bits]
    for read in (varints.read_unsigned, varints.read_signed):
        assert read(bits, b"\x80" * (most - 1) + b"\0", 0) == (0, most)
        with pytest.raises(Malformed, match=f"more than {most} bytes"):
            read(bits, b"\x80" * most + b"\0", 0)
        with pytest.raises(Malformed, match=f"more than {bits} bits"):
            read(bits, b"\xff" * (most - 1) + bytes([1 << bits % 7]), 0)
    with pytest.raises(Malformed, match=f"more than {most} bytes"):
        varints.skip(most, b"\x80" * most, 0)


def test_a_walk_over_one_steps_from_chunk_to_chunk() -> None:
    walk = varints.split(5, b"_\xff", 2, 2)
    next(walk)
    walk.send(b"")
    walk.send(b"\x80")
    with pytest.raises(StopIteration) as done:
        walk.send(b"\x80\x01rest")
    assert done.value.value == (b"\x80\x01rest", 2, 6)
    with pytest.raises(Malformed, match="more than 3 bytes"):
        next(varints.split(3, b"\xff\xff\xff", 1, 3))
