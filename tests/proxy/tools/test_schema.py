"""Tests of a message at one version as a table, as JSON, and as its generated source."""

import json

import pytest

from proxy.tools import schema
from proxy.wire.compile.layout import layout
from proxy.wire.language import parse
from tests.strategies import EVERY_MESSAGE, field_paths, must_codec


def test_every_message_shows_the_fields_of_its_version_and_no_others() -> None:
    for message in EVERY_MESSAGE:
        codec = must_codec(*message)
        title, *lines = schema.as_text(codec.message, codec.version)
        wanted = sorted(path.rpartition(".")[2] for path in field_paths(layout(codec.message, codec.version)))
        assert title.startswith(f"{codec.message.name}  key {codec.message.key}  version {codec.version} of ")
        assert sorted(line.split()[0] for line in lines[1:]) == wanted or (lines == ["  (no fields)"] and not wanted)


def test_a_field_has_its_type_default_tag_and_marks() -> None:
    lines = [line.split() for line in schema.as_text(must_codec("response", 3, 12).message, 12)]
    assert ["rack", "string?", "null", "v1", "ignorable"] in lines
    assert ["node_id", "int32", "node_id"] in lines
    assert ["controller_id", "int32", "-1", "v1", "ignorable", "node_id"] in lines
    tagged = [line.split() for line in schema.as_text(must_codec("response", 18, 3).message, 3)]
    assert ["zk_migration_ready", "bool", "3", "v3", "ignorable"] in tagged


def test_nullability_is_shown_by_version() -> None:
    for version, type_ in ((0, "[]"), (1, "[]?")):
        lines = [line.split() for line in schema.as_text(must_codec("request", 3, version).message, version)]
        assert ["topics", type_] in lines


def test_a_type_that_changes_is_shown_by_version() -> None:
    text = "XRequest  key 200  versions 0-3  flexible 2+\n  ids: []int32 v0-1, []unsigned_varint32 v2+\n"
    (message,) = parse(text)
    for version, type_ in ((1, "[]int32"), (2, "[]unsigned_varint32")):
        assert ["ids", type_] in [line.split()[:2] for line in schema.as_text(message, version)]
        assert schema.as_json(message, version)["fields"][0]["type"] == type_


def test_json_nests_what_stands_in_a_struct() -> None:
    codec = must_codec("response", 3, 12)
    told = json.loads(json.dumps(schema.as_json(codec.message, 12)))
    brokers = next(field for field in told["fields"] if field["name"] == "brokers")
    assert [field["name"] for field in brokers["fields"]] == ["node_id", "host", "port", "rack"]
    assert brokers["fields"][3] | {"default": None, "nullable": True} == brokers["fields"][3]


@pytest.mark.parametrize("function", ["decode", "encode", "project", "walk"])
def test_the_source_is_python_that_defines_that_function(function: str) -> None:
    text = schema.source(must_codec("response", 3, 12), function, ("brokers",))
    assert text.startswith(f"def {function}(")
    compile(text, "source", "exec")


def test_a_projection_or_walk_without_a_field_says_how_to_name_one() -> None:
    for function in ("project", "walk"):
        with pytest.raises(ValueError, match=f"{function} needs the path of a field: --path throttle_time_ms"):
            schema.source(must_codec("response", 3, 12), function, ())
    with pytest.raises(ValueError, match="has no field 'bogus'"):
        schema.source(must_codec("response", 3, 12), "project", ("bogus",))
