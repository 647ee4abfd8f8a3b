"""Tests of values as lines of text, with a mark where they are cut. Lines of trees: test_show.py."""

from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.plain import as_lines, readable
from proxy.tools.tree import Masked
from proxy.wire import apis
from proxy.wire.language import Field


def every_field(fields: Iterable[Field]) -> Iterator[str]:
    for field in fields:
        yield field.name
        yield from every_field(field.fields)


@given(st.binary(max_size=40), st.integers(0, 50))
def test_cut_bytes_end_with_an_ellipsis(data: bytes, most: int) -> None:
    (line,) = as_lines({"a": data}, 0, most)
    assert line.startswith("a: 1 byte" if len(data) == 1 else f"a: {len(data)} bytes")
    if most:
        assert line.endswith(" ...") == (most < len(data))


def test_bytes_are_text_where_a_person_can_read_it() -> None:
    assert [readable(data) for data in (b"{\n}", b"", b"a\0", b"\xff", "\u202e".encode())] == ["{\n}"] + [None] * 4
    assert [readable("aéb".encode(), most) for most in (1, 2, 3, 4, 9)] == ["a", "a", "aé", "aéb", "aéb"]
    assert readable("é".encode(), 1) is None
    assert readable(b"text, and then \xff", 4) == "text"


def test_no_field_of_kafkas_is_called_as_an_errors_name() -> None:
    for key in apis.api_keys():
        message = apis.message("response", key)
        assert message is not None
        assert not [name for name in every_field(message.fields) if name.endswith("error_name")]


def test_share_groups_acknowledgements_and_modes_are_told_by_name() -> None:
    told = {"acknowledge_types": [0, 1, 2, 3, 4, 5, -1], "share_acquire_mode": 1, "other": [1]}
    assert [*as_lines(told, 0, 9)] == [
        "acknowledge_types: [0 gap, 1 accept, 2 release, 3 reject, 4 renew, 5, -1]",
        "share_acquire_mode: 1 record_limit",
        "other: [1]",
    ]


def test_text_that_could_be_taken_for_something_else_stands_between_quotes() -> None:
    texts = ["null", "masked", "", " a", "'a'", "a b"]
    lines = [line for text in texts for line in as_lines({"t": text}, 0, 9)]
    assert lines == ["t: 'null'", "t: 'masked'", "t: ''", "t: ' a'", "t: '\\'a\\''", "t: a b"]


def test_names_and_texts_are_printable() -> None:
    tree = {"na\nme": "a\x1b\\", "raw": b"\\n", "rows": [{"\u202e": 1}], "bare": ["\x9b"]}
    assert [*as_lines(tree, 0, 9)] == [
        "na\\nme: a\\u001b\\\\",
        "raw: 2 bytes: '\\\\n'",
        "rows:",
        "  - \\u202e: 1",
        "bare: [\\u009b]",
    ]


def test_an_array_may_hold_structs_beside_others() -> None:
    assert [*as_lines({"a": [{"b": 1}, "c", None]}, 0, 9)] == ["a:", "  - b: 1", "  - c", "  - null"]


def test_a_single_byte_is_written_in_the_singular() -> None:
    assert [*as_lines({"a": b"x", "b": Masked(1)}, 0, 9)] == ["a: 1 byte: 'x'", "b: masked, 1 byte"]


def test_millions_of_numbers_are_one_line() -> None:
    (line,) = as_lines({"a": list(range(2000))}, 0, 9)
    assert line == f"a: {list(range(2000))}"
