import os
import re

import pytest

from proxy.wire.apis import MESSAGES
from proxy.wire.integers import ENCODINGS, VARINT_TYPES
from proxy.wire.language import (
    FIXED_TYPES,
    MARKS,
    NEVER,
    OPEN_END,
    SIZED_TYPES,
    Field,
    LanguageError,
    Message,
    parse,
)
from tests.tables import each_row

HEAD = "MetadataResponse  key 3  versions 0-13  flexible 9+\n"


def fields(text: str) -> tuple[Field, ...]:
    (message,) = parse(HEAD + text)
    return message.fields


def field(text: str) -> Field:
    (found,) = fields(f"  {text}\n")
    return found


def test_a_message_has_name_kind_key_and_versions() -> None:
    assert parse("ListGroupsRequest  key 16  versions 0-5  flexible 3+\n") == (
        Message("ListGroupsRequest", "request", 16, range(6), range(3, OPEN_END), ()),
    )
    (never,) = parse("SaslHandshakeResponse key 17 versions 1 flexible never")
    assert (never.kind, never.api, never.versions, never.flexible) == ("response", "SaslHandshake", range(1, 2), NEVER)


def test_a_message_of_data_belongs_to_no_api_and_may_be_numbered() -> None:
    numbered, bare = parse(
        "PartitionRecord  key 3  versions 0-2  flexible 0+\nEndTxnMarker  versions 0  flexible never"
    )
    assert (numbered.kind, numbered.key, numbered.api) == ("data", 3, "PartitionRecord")
    assert (bare.kind, bare.key) == ("data", None)


def test_a_file_holds_several_messages() -> None:
    text = "ARequest key 1 versions 0 flexible never\n\nAResponse key 1 versions 0 flexible never"
    assert [message.name for message in parse(text)] == ["ARequest", "AResponse"]


@each_row("type_", ["int32", "string", "uuid", "[]int32", "[]string", "records"])
def test_a_field_has_a_name_and_a_type_and_is_in_all_versions(type_: str) -> None:
    found = field(f"name: {type_}")
    assert found == Field("name", type_, range(14))
    assert found.is_array == type_.startswith("[]")
    assert found.element == type_.removeprefix("[]")


def test_versions_are_one_or_a_range_or_open() -> None:
    assert field("name: int8  v3").versions == range(3, 4)
    assert field("name: int8  v3-5").versions == range(3, 6)
    assert field("name: int8  v3+").versions == range(3, OPEN_END)


def test_a_question_mark_makes_a_field_nullable_in_its_versions_or_in_others() -> None:
    assert field("name: string?  v3+").nullable == range(3, OPEN_END)
    assert field("name: string?10+  v3+").nullable == range(10, OPEN_END)
    assert field("name: []int32?2-4").nullable == range(2, 5)
    assert field("name: string").nullable == NEVER


@each_row(
    ("text", "default"),
    [
        ("int32  = -1", -1),
        ("int32  = 0x7fffffff", 2**31 - 1),
        ("bool  = true", True),
        ("bool  = false", False),
        ("float64  = 1.5", 1.5),
        ("string?  = null", None),
        ("[]int32?  = null", None),
    ],
)
def test_a_default_is_a_value_of_the_type(text: str, default: object) -> None:
    found = field(f"name: {text}")
    assert found.has_default
    assert found.default == default
    assert type(found.default) is type(default)
    assert not field("name: int32").has_default


def test_a_tag_and_marks_stand_after_the_type() -> None:
    found = field("name: string?  v9+  tag 3  = null  secret  topic_name")
    assert (found.tag, found.marks) == (3, frozenset(["secret", "topic_name"]))


def test_indented_fields_belong_to_the_struct_above() -> None:
    brokers, controller = fields(
        "  brokers: []\n    id: int32\n    rack: {}?  v1+\n      name: string\n  last: int32\n"
    )
    assert [inner.name for inner in brokers.fields] == ["id", "rack"]
    assert brokers.element == "struct"
    assert brokers.fields[1].type == "{}"
    assert brokers.fields[1].fields[0].versions == range(1, 14), "those of what it stands in"
    assert controller.name == "last"


def test_a_shared_struct_is_written_once_and_used_by_name() -> None:
    (message,) = parse("struct Pair\n  a: int8\n  b: int8  v2+\n\n" + HEAD + "  one: Pair?\n  many: []Pair\n")
    one, many = message.fields
    assert one.fields == many.fields
    assert [inner.name for inner in one.fields] == ["a", "b"]
    assert (one.type, many.type) == ("{}", "[]")


def test_comments_and_blank_lines_say_nothing() -> None:
    assert fields("# a comment\n\n  name: int8  # another\n  # a third\n") == fields("  name: int8\n")


def test_the_same_name_may_stand_twice_in_different_versions() -> None:
    old, new = fields("  lag: int32  v0\n  lag: int64  v1+\n")
    assert (old.type, new.type) == ("int32", "int64")


BOTH_FORMS = [
    ("int32 v0-9, unsigned_varint32 v10+", "int32  encoding fixed32 v0-9, unsigned32 v10+"),
    ("[]int32 v0-9, []unsigned_varint32 v10+", "[]int32  encoding fixed32 v0-9, unsigned32 v10+"),
    ("[]int64?3+ v2-5, []varint64 v6  tag 1", "[]int64?3+  tag 1  encoding fixed64 v2-5, signed64 v6"),
    ("int32 v0-3, int64 v4+  = -1", "int64  encoding fixed32 v0-3, fixed64 v4+  = -1"),
    ("int16 v0, varint32 v1, int64 v2+", "int64  encoding fixed16 v0, signed32 v1, fixed64 v2+"),
    ("unsigned_varint16  v3+  node_id", "int16  v3+  encoding unsigned16  node_id"),
    ("varint64", "int64  encoding signed64"),
    ("int8 v0, int16 v1+", "int8 v0, int16 v1+"),
]


@each_row(("types", "encodings"), BOTH_FORMS)
def test_types_by_version_and_encodings_by_version_are_the_same(types: str, encodings: str) -> None:
    head = "MetadataResponse  key 3  versions 0-13  flexible 0+\n"
    assert parse(f"{head}  leader_id: {types}\n") == parse(f"{head}  leader_id: {encodings}\n")


def test_a_field_has_the_type_of_the_version_and_holds_the_widest() -> None:
    found = field("lag: int16 v2, varint32 v3-5, unsigned_varint64 v6+  = -1")
    assert (found.type, found.versions, found.default) == ("int64", range(2, OPEN_END), -1)
    assert [found.element_at(version) for version in range(2, 8)] == [
        "int16",
        *["varint32"] * 3,
        *["unsigned_varint64"] * 2,
    ]
    assert field("lag: []int32 v0, []int64 v1+").element_at(0) == "int32"
    assert field("lag: varint32").element_at(5) == field("lag: varint32").element == "varint32"


def test_versions_may_be_given_beside_encodings() -> None:
    assert field("id: int32  v2+  encoding fixed32 v2-9, unsigned32 v10+") == field(
        "id: int32  encoding fixed32 v2-9, unsigned32 v10+"
    )


@each_row(
    ("line", "text", "reason"),
    [
        (1, "  name: int8", "a field before any message"),
        (1, "metadata", "a message starts"),
        (1, "MetadataResponse  versions 0  flexible never", "a response has its api's key"),
        (1, "MetadataResponse  key 3  versions 0+  flexible 9+", "has a last version"),
        (1, "MetadataResponse  key 3  versions 3-1  flexible 9+", "end before they start"),
        (1, "MetadataResponse  key 3  versions x  flexible 9+", "versions are 4, 0-7 or 3+"),
        (2, HEAD + "   name: int8", "indent by two spaces"),
        (2, HEAD + "    name: int8", "fields expected, indented by 2 spaces"),
        (2, HEAD + "  Name: int8", "a field is"),
        (2, HEAD + "  name: int9", "unknown type 'int9'"),
        (2, HEAD + "  name: Pair", "unknown type 'Pair'"),
        (2, HEAD + "  name: int8  ~", "can't read"),
        (2, HEAD + "  name: int8  v3x", "versions are 4, 0-7 or 3\\+, not '3x'"),
        (2, HEAD + "  name: int8  hidden", "unknown mark 'hidden'"),
        (2, HEAD + "  name: int8  v14+", None),
        (2, HEAD + "  name: int8  = x", "x is no default of int8"),
        (2, HEAD + "  name: int8  = 128", "128 is no default of int8"),
        (2, HEAD + "  name: int16 v0, int64 v1+  = 40000", "40000 is no default of int16 and int64"),
        (2, HEAD + "  name: int32 v0-3, int64 v5+", "version 5 does not"),
        (2, HEAD + "  name: int32 v0-3, int64 v3+", "version 3 does not"),
        (2, HEAD + "  name: int32 v0+, int64 v5+", "version 5 does not"),
        (2, HEAD + "  name: int32 v0, string v1+", "int32 can't become string"),
        (2, HEAD + "  name: bool v0, int8 v1+", "bool can't become bool"),
        (2, HEAD + "  name: int32 v0, []int32 v1+", "int32 can't become \\[\\]int32"),
        (2, HEAD + "  name: int32, int64 v1+", "a field is"),
        (2, HEAD + "  name: int32  encoding zigzag32", "unknown encoding 'zigzag32'"),
        (2, HEAD + "  name: int32  encoding fixed64", "fixed64 is no encoding of int32"),
        (2, HEAD + "  name: int64  encoding fixed32", "no version has room for int64"),
        (2, HEAD + "  name: string  encoding fixed32", "fixed32 is no encoding of string"),
        (2, HEAD + "  name: varint32  encoding signed32", "signed32 is no encoding of varint32"),
        (2, HEAD + "  name: int32  v0-3  encoding fixed32 v0-9, signed32 v10+", "in the versions of its encodings"),
        (2, HEAD + "  name: int32 v0, varint32 v1+  encoding fixed32", "a type by version, or one type"),
        (2, HEAD + "  name: bool  = 1", "1 is no default of bool"),
        (2, HEAD + "  name: string  = x", "x is no default of string"),
        (2, HEAD + "  name: string  = null", "null by default, but not nullable"),
        (2, HEAD + "  name: int8?", "int8 can't be null"),
        (2, HEAD + "  name: int8  v3+  tag 0", "tagged in a version that is not flexible"),
        (2, HEAD + "  tags: int8", "taken by the tag buffer"),
        (2, HEAD + "  name: []", "fields expected"),
        (3, HEAD + "  name: int8\n    inner: int8", "name is no struct"),
        (3, HEAD + "  name: int8\n  name: int16  v2+", "name stands twice"),
        (3, HEAD + "  one: int8  v9+  tag 0\n  two: int8  v10+  tag 0", "tag 0 is one's already"),
        (3, HEAD + "  name: []  v3+\n    inner: int8  v0-2", "in no version of what it stands in"),
        (3, "struct A\n  a: int8\nstruct A\n  b: int8", "struct A stands twice"),
    ],
)
def test_a_wrong_line_is_named(line: int, text: str, reason: str | None) -> None:
    with pytest.raises(LanguageError, match=f"^line {line}: .*{reason or 'is in no version'}"):
        parse(text)


def test_every_file_is_written_the_way_the_page_teaches() -> None:
    """Checks names, columns, and the content of a line: people read the files first."""
    for name in sorted(os.listdir(MESSAGES.path)):
        if name.endswith(".kafka"):
            with open(os.path.join(MESSAGES.path, name), encoding="utf-8") as file:
                text = file.read()
            first, blank, *lines = text.splitlines()
            request, response = parse(text)
            assert first.startswith(f"# {request.api}: "), name
            assert blank == ""
            assert letters(name) == letters(f"{request.key:02d}_{request.api}.kafka")
            assert (request.kind, response.kind) == ("request", "response")
            assert all(len(line) <= 120 and line == line.rstrip() for line in lines), name


def test_the_page_of_the_language_is_right() -> None:
    """Its examples can be read, and it names every type and mark."""
    with open(os.path.join(MESSAGES.path, "README.md"), encoding="utf-8") as file:
        page = file.read()
    examples = re.findall(r"(?ms)^```\n(.*?)^```$", page)
    first, data, types, encodings, shared = map(parse, examples)
    assert first[0].fields[1].fields[3].name == "rack"
    assert {message.kind for message in data} == {"data"}
    assert types == encodings, "the two forms"
    assert len(shared) == 1
    for word in {*FIXED_TYPES, *VARINT_TYPES, *ENCODINGS, *SIZED_TYPES, *MARKS}:
        assert re.search(rf"[` ]{word}[`: ]", page), word


def letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
