import inspect
import traceback

from proxy.wire.compile.source import Source
from tests.tables import each_row


def test_lines_become_a_function_whose_text_stays() -> None:
    source = Source("add v1", "def add(one, other):")
    with source.block("if other:"):
        source.line("return one + other")
    source.line("return one")
    add = source.function()
    assert (add(1, 2), add(1, 0)) == (3, 1)
    assert "return one + other" in inspect.getsource(add)


def test_a_traceback_shows_the_written_line() -> None:
    source = Source("fail v1", "def fail(buf):")
    source.line("return buf[5]  # the line")
    try:
        source.function()(b"")
    except IndexError as error:
        text = "".join(traceback.format_exception(error))
    assert "<fail v1>" in text
    assert "# the line" in text


def test_an_empty_block_is_written_too() -> None:
    source = Source("nothing", "def nothing(n):")
    with source.block("if n:"):
        pass
    source.line("return n")
    assert source.function()(3) == 3


@each_row("name", ["at", "buf", "n", "class", "len", "many", "from"])
def test_a_name_in_use_gets_a_number(name: str) -> None:
    source = Source("names", "def names():")
    assert source.fresh(name) == f"{name}_2"
    assert source.fresh(name) == f"{name}_3"


def test_a_name_is_given_once() -> None:
    source = Source("names", "def names():")
    assert [source.fresh("host"), source.fresh("host"), source.fresh("port")] == ["host", "host_2", "port"]


def test_readers_and_writers_of_fixed_fields_are_constants() -> None:
    source = Source("both", "def both(data):")
    read, pack = source.unpack("h?i"), source.pack("h?i")
    source.line(f"return {pack}(*{read}(data, 1))")
    assert source.function()(b"_" + b"\0\1\2\0\0\0\3") == b"\0\1\1\0\0\0\3"


def test_rows_are_all_that_a_buffer_holds() -> None:
    source = Source("rows", "def both(data):")
    source.line(f"return list({source.rows('bh')}(data))")
    assert source.function()(b"\1\0\2\3\0\4") == [(1, 2), (3, 4)]


def test_a_first_line_stands_before_what_was_written_already() -> None:
    source = Source("first", "def first():")
    with source.block("for one in (1, 2):"):
        source.line("found.append(one)")
        source.first("found = []")
    source.line("return found")
    assert source.function()() == [1, 2]
