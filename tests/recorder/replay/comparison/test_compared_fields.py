"""Tests that each field of a response has exactly one rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from proxy.wire import apis
from recorder.replay.comparison.compared_fields import ComparedField, compared_fields
from recorder.replay.comparison.terms import ASKED, EPOCH_OF
from recorder.replay.mapping import ValueKind
from recorder.replay.requests.fields import ComparisonRule
from tests.recorder.replay.sent import SENT

RESPONSES = [(key, version) for key in SENT for version in apis.versions(key)]


def below(lines: Iterable[ComparedField]) -> Iterator[ComparedField]:
    """Yields all fields of a response."""
    for line in lines:
        yield line
        yield from below(line.inner)


def rules(api_key: int, version: int) -> Mapping[str, ComparisonRule]:
    """Returns the rule of each field, by path."""
    return {line.path: line.how for line in below(compared_fields(api_key, version))}


def test_every_field_of_every_version_has_a_rule() -> None:
    for key, version in RESPONSES:
        message = apis.message("response", key)
        assert message is not None
        fields = {field.name for field in message.fields if version in field.versions}
        assert fields == {line.name for line in compared_fields(key, version)}
    assert compared_fields(2000, 0) == ()


def test_each_mapped_field_holds_a_value_that_the_cluster_assigned_or_a_name_in_it() -> None:
    epochs = set(EPOCH_OF.values())
    for response in RESPONSES:
        for line in below(compared_fields(*response)):
            if line.how is ComparisonRule.MAPPED and line.name not in epochs:
                assert line.what in ASKED, (response, line.path)


def test_values_that_the_cluster_assigns_are_never_compared_unmapped() -> None:
    """Except blobs, whose decoded values are mapped, and values that the group's members agree on."""
    compared_otherwise = {
        ValueKind.MEMBER_METADATA,
        ValueKind.ASSIGNMENT,
        ValueKind.PROTOCOL,
        ValueKind.OWNED,
        ValueKind.TASK_OFFSET,
    }
    for response in RESPONSES:
        for line in below(compared_fields(*response)):
            is_unmapped = line.how is ComparisonRule.EQUAL and line.what is not None
            assert not is_unmapped or line.what in compared_otherwise, (response, line.path)


def test_an_error_code_is_left_out_only_where_all_around_it_is() -> None:
    for response in RESPONSES:
        for line in below(compared_fields(*response)):
            if line.is_error and line.how is ComparisonRule.LEFT_OUT:
                assert rules(*response)[line.path.rpartition(".")[0]] is ComparisonRule.LEFT_OUT


def test_what_is_left_out_or_united_is_so_with_all_that_is_in_it() -> None:
    for response in RESPONSES:
        for line in below(compared_fields(*response)):
            if line.how in (ComparisonRule.LEFT_OUT, ComparisonRule.UNION):
                assert {inner.how for inner in below(line.inner)} <= {line.how}, (response, line.path)


def test_an_access_rules_host_is_no_address_of_the_cluster() -> None:
    assert rules(29, 3)["resources.acls.host"] is ComparisonRule.EQUAL
    assert rules(3, 12)["brokers.host"] is ComparisonRule.LEFT_OUT


def test_a_group_is_described_with_its_members_assignments_all_together() -> None:
    (groups,) = [line for line in compared_fields(69, 1) if line.name == "groups"]
    (members,) = [line for line in groups.inner if line.name == "members"]
    assert set(members.unions) == {"assignment", "target_assignment"}
    assert not groups.unions
