"""Tests of foreign text on its way to a terminal."""

import json
import re
import tomllib
from unicodedata import category

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.schema.toml import toml
from proxy.terminal import (
    MAX_MARKS,
    each_printable,
    harmless,
    harmless_json,
    harmless_lines,
    is_visible,
    printable,
    quoted,
)
from tests.hostile_text import NAME, TEXT, obeyed
from tests.tables import each_row

ACUTE = "\u0301"
# Unicode categories of characters that are invisible or look like others; of blanks, only " " is allowed
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
TEXTS = st.text(st.characters(), max_size=30) | st.text("\\nu0e1\x1b\u202e\u0301a'\"", max_size=12)
_ESCAPED = re.compile(r"\\\\|\\n|\\r|\\t|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}")


def read_again(shown: str) -> str:
    """Reads a text as a reader who knows the escapes."""
    short = {"\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\t": "\t"}
    return _ESCAPED.sub(lambda found: short.get(found[0]) or chr(int(found[0].lstrip("\\uU"), 16)), shown)


@given(TEXTS)
@example(TEXT)
@example("\\u001b")
def test_printable_text_can_be_read_back(text: str) -> None:
    assert read_again(printable(text)) == text
    assert read_again(quoted(text)[1:-1].replace("\\'", "'")) == text


@given(TEXTS)
@example(TEXT)
@example(NAME)
def test_printable_text_has_no_control_characters(text: str) -> None:
    for shown in (printable(text), harmless(text), quoted(text)):
        assert not any(category(letter) in HIDDEN and letter != " " for letter in shown)
        assert obeyed(f"- {shown}") == []
        assert harmless(f"- {shown}") == f"- {shown}"


def test_only_visible_characters_stay_unescaped() -> None:
    codes = [*range(0x10000), *range(0x10000, 0x110000, 101)]
    for letter in map(chr, codes):
        if category(letter) in HIDDEN and letter != " ":
            assert printable("a" + letter).isascii()


@each_row("code", [0x034F, 0x115F, 0x3164, 0xFE0E, 0xFE0F, 0xFFA0, 0x2800, 0xE0100], ids=hex)
def test_letters_that_are_drawn_as_nothing_are_escaped(code: int) -> None:
    assert printable("a" + chr(code)).isascii()


@each_row(
    "text",
    ["", "plain", "é日本", "“naïve”", "ה" + "\u05bc\u05b8\u0591", "เรือ"],
    ids=["empty", "ascii", "wide", "quotes", "hebrew", "thai"],
)
def test_ordinary_text_is_shown_unchanged(text: str) -> None:
    assert printable(text) == harmless(text) == text
    assert is_visible(text)


def test_marks_stand_on_a_letter_of_their_own_and_never_pile_up() -> None:
    assert printable(ACUTE + "a") == "\\u0301a"
    assert printable("a" + ACUTE * MAX_MARKS) == "a" + ACUTE * MAX_MARKS
    assert printable("a" + ACUTE * (MAX_MARKS + 2)) == "a" + ACUTE * MAX_MARKS + "\\u0301" * 2
    assert printable("\x1b" + ACUTE) == "\\u001b\\u0301"


def test_a_line_keeps_its_backslashes_and_several_lines_their_ends() -> None:
    assert harmless("C:\\temp\n") == "C:\\temp\\n"
    assert harmless_lines("a\x1b\nb\r") == "a\\u001b\nb\\r"


def test_is_visible_admits_the_given_control_characters() -> None:
    assert is_visible("a\n\tb", but="\n\t")
    assert not is_visible("a\n\x1bb", but="\n\t")


@given(st.recursive(TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)))
@example([TEXT])
def test_json_stays_the_same_json(value: object) -> None:
    for indent in (None, 2):
        shown = harmless_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert json.loads(shown) == json.loads(json.dumps(value))
        assert obeyed(shown) == []


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@example(TEXT)
def test_toml_says_the_same_text(text: str) -> None:
    assert tomllib.loads(f"a = {toml(text)}")["a"] == text
    assert obeyed(toml(text)) == []


@given(st.lists(TEXTS | st.text("ab ", max_size=5), max_size=5))
def test_several_are_made_printable_like_each(texts: list[str]) -> None:
    assert [*each_printable(texts)] == [printable(text) for text in texts]
