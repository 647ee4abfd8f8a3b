import inspect

import pytest

from proxy.wire.compile.cursor import Cursor
from proxy.wire.compile.source import Source


def cursor(head: str = "def read(buf, at):") -> Cursor:
    return Cursor(Source("read", head))


def test_fixed_fields_that_follow_each_other_are_read_at_once() -> None:
    reader = cursor()
    reader.take("h", 2, "one")
    reader.step(3)
    reader.take("i", 4, "two")
    reader.flush()
    reader.source.line("return one, two, at")
    read = reader.source.function()
    assert read(b"_\0\1xyz\0\0\0\2", 1) == (1, 2, 10)
    assert inspect.getsource(read).count("read_h3xi") == 1


def test_steps_alone_read_nothing() -> None:
    reader = cursor()
    reader.step(2)
    reader.step(5)
    assert reader.pending == 7
    reader.flush()
    reader.source.line("return at")
    assert reader.source.function()(b"", 1) == 8


def test_a_callback_before_a_step_sees_the_runs_start() -> None:
    reader = cursor("def read(buf, at, seen):")
    reader.step(1)
    reader.take("b", 1, "one")
    reader.before_step(lambda: reader.source.line("seen.append((one, at + 1))"))
    reader.flush()
    seen: list[tuple[int, int]] = []
    reader.source.function()(b"\0\5", 0, seen)
    assert seen == [(5, 1)]


def test_steps_after_the_last_value_are_not_read() -> None:
    """They may lie beyond the bytes that a projection needs."""
    reader = cursor()
    reader.take("b", 1, "one")
    reader.step(1000)
    reader.flush()
    reader.source.line("return one, at")
    assert reader.source.function()(b"\5", 0) == (5, 1001)


@pytest.mark.parametrize(("data", "count"), [(b"\x05", 5), (b"\xac\x02", 300), (b"\x85\x80\x00", 5)])
def test_a_count_is_a_varint_of_any_width(data: bytes, count: int) -> None:
    reader = cursor()
    reader.step(1)
    reader.count()
    reader.source.line("return n, at")
    assert reader.source.function()(b"_" + data, 0) == (count, 1 + len(data))


def test_fields_after_a_detour_are_read_once() -> None:
    reader = cursor()
    reader.take("h", 2, "one")
    reader.detour("b", 1, "count", "count", lambda: reader.take("h", 2, "detour"))
    reader.take("i", 4, "two")
    reader.length("b", 1)
    reader.source.line("return one, count, two, n, at")
    read = reader.source.function()
    assert read(b"_\0\1" + b"\0" + b"\0\0\0\2\3", 1) == (1, 0, 2, 3, 9)
    assert read(b"_\0\1" + b"\1" + b"\7\7" + b"\0\0\0\2\3", 1) == (1, 1, 2, 3, 11)


def test_a_second_detour_begins_after_the_first() -> None:
    reader = cursor()
    reader.detour("b", 1, "first", "first", lambda: reader.step(1))
    reader.detour("b", 1, "second", "second", lambda: reader.step(2))
    reader.take("b", 1, "end")
    reader.flush()
    reader.source.line("return first, second, end, at")
    read = reader.source.function()
    assert read(b"\0\0\5", 0) == (0, 0, 5, 3)
    assert read(b"\1_\0\5", 0) == (1, 0, 5, 4)
    assert read(b"\0\1__\5", 0) == (0, 1, 5, 5)
    assert read(b"\1_\1__\5", 0) == (1, 1, 5, 6)
