"""Tests that each field of a response has exactly one rule."""

from __future__ import annotations

from proxy.wire import apis
from proxy.wire.error_codes import is_error_code
from recorder.replay.comparison.compared_fields import compared_fields
from recorder.replay.comparison.terms import ASKED, EPOCH_OF
from recorder.replay.comparison.volatile import MARKS, NAMES, ROWS, STRUCTURE_ONLY, ComparisonRule, named, rules
from recorder.replay.mapping import ValueKind
from recorder.replay.requests import fields
from tests.recorder.replay.sent import SENT, fields_of

FIELDS = [(key, path, field) for key in SENT for path, field in fields_of("response", key)]


def test_no_two_rows_speak_of_one_field() -> None:
    assert [(key, path) for key, path, field in FIELDS if len(named(field)) > 1 and (key, path) not in ROWS] == []


def test_every_field_of_every_version_has_a_rule() -> None:
    for key in SENT:
        for version in apis.versions(key):
            found = set(rules(key, version))
            assert found == {line.path for line in _all(compared_fields(key, version))}
    assert rules(2000, 0) == {}


def _all(of):  # type: ignore[no-untyped-def]
    for line in of:
        yield line
        yield from _all(line.inner)


def test_every_row_is_of_a_field_that_exists() -> None:
    assert ROWS.keys() <= {(key, path) for key, path, _ in FIELDS}
    assert {name for names in NAMES.values() for name in names} <= {field.name for _, _, field in FIELDS}
    marked = {mark for *_, field in FIELDS for mark in field.marks}
    assert marked >= set().union(*MARKS.values())
    assert set(SENT) >= STRUCTURE_ONLY


def test_each_mapped_field_holds_a_value_that_the_cluster_assigned_or_a_name_in_it() -> None:
    epochs = set(EPOCH_OF.values())
    for key in SENT:
        for version in apis.versions(key):
            state = fields.of("response", key, version)
            for path, how in rules(key, version).items():
                if how is ComparisonRule.MAPPED and path.rpartition(".")[2] not in epochs:
                    assert state[path].what in ASKED, (key, version, path)


def test_values_that_the_cluster_assigns_are_never_compared_unmapped() -> None:
    """Except blobs, whose decoded values are mapped, and values that the group's members agree on."""
    compared_otherwise = {
        ValueKind.MEMBER_METADATA,
        ValueKind.ASSIGNMENT,
        ValueKind.PROTOCOL,
        ValueKind.OWNED,
        ValueKind.TASK_OFFSET,
    }
    for key in SENT:
        for version in apis.versions(key):
            for path, field in fields.of("response", key, version).items():
                how = rules(key, version)[path]
                assert how is not ComparisonRule.EQUAL or field.what in compared_otherwise, (key, version, path)


def test_an_error_code_is_left_out_only_where_all_around_it_is() -> None:
    for key in SENT:
        for version in apis.versions(key):
            for path, how in rules(key, version).items():
                if is_error_code(path) and how is ComparisonRule.LEFT_OUT:
                    assert rules(key, version)[path.rpartition(".")[0]] is ComparisonRule.LEFT_OUT


def test_an_access_rules_host_is_no_address_of_the_cluster() -> None:
    assert rules(29, 3)["resources.acls.host"] is ComparisonRule.EQUAL
    assert rules(3, 12)["brokers.host"] is ComparisonRule.LEFT_OUT
