"""Tests of the list of embedded messages, and of the style of their files."""

import pickle

import pytest

from proxy.wire.catalog import secrets
from proxy.wire.embedded import schemas
from proxy.wire.language import MASKED, Field, parse

COORDINATOR_LOGS = ("consumer_offsets", "share_group_state", "transaction_state")


def test_names_lead_to_schemas_and_versions() -> None:
    for name in schemas.names():
        found = schemas.message(name)
        assert found is not None
        assert (found.name, found.kind, found.versions) == (name, "data", schemas.versions(name))
        assert all(schemas.codec(name, version) for version in found.versions)
        assert schemas.codec(name, found.versions.stop) is None


def test_an_unknown_embedded_message_is_none_or_empty() -> None:
    assert schemas.message("Metadata") is None
    assert schemas.codec("Metadata", 0) is None
    assert schemas.versions("Metadata") == range(0)


def test_a_codec_is_pickled_by_name_and_found_again() -> None:
    found = schemas.codec("OffsetCommitValue", 3)
    data = pickle.dumps(found)
    assert pickle.loads(data) is found
    assert len(data) < 100
    with pytest.raises(ValueError, match="no embedded message OffsetCommitValue version 99 in the catalog"):
        pickle.loads(data.replace(b"K\x03", b"K\x63"))


def test_no_name_stands_twice() -> None:
    written = [one.name for name in schemas.FILES.names() for one in parse(schemas.FILES.text(name))]
    assert list(schemas.names()) == written
    assert len(set(written)) == len(written) > 100


def test_each_key_of_a_coordinators_log_has_its_value() -> None:
    for file in COORDINATOR_LOGS:
        keys, values = schemas.numbered(file, "Key"), schemas.numbered(file, "Value")
        assert keys.keys() == values.keys()
        for number, name in keys.items():
            assert values[number].removesuffix("Value") == name.removesuffix("Key")


def test_types_are_numbered_as_kafkas_are() -> None:
    assert list(schemas.numbered("consumer_offsets", "Key")) == [n for n in range(24) if n != 18]
    # the missing numbers were never released
    assert list(schemas.numbered("cluster_metadata")) == [n for n in range(30) if n not in (6, 13, 16)]


def test_credentials_of_metadata_records_are_marked() -> None:
    marked = {
        (name, field.name)
        for name in schemas.names()
        if (found := schemas.message(name))
        for field in all_fields(found.fields)
        if field.marks & set(MASKED)
    }
    assert marked == {
        ("ConfigRecord", "value"),
        ("DelegationTokenRecord", "token_id"),
        ("RemoveDelegationTokenRecord", "token_id"),
        *(("UserScramCredentialRecord", name) for name in ("salt", "stored_key", "server_key")),
    }
    assert secrets("request", 51, 0) == ("upsertions.salt", "upsertions.salted_password"), "as in the request"


def all_fields(fields: tuple[Field, ...]) -> list[Field]:
    return [one for field in fields for one in (field, *all_fields(field.fields))]


def test_every_file_is_written_the_way_the_page_teaches() -> None:
    """Files begin with a line that says where their messages occur; lines fit on a screen."""
    for name in schemas.FILES.names():
        text = schemas.FILES.text(name)
        assert text.startswith("# "), name
        assert all(len(line) <= 120 and line == line.rstrip() for line in text.splitlines()), name
        assert text.endswith("\n"), name
        assert not text.endswith("\n\n"), name
