"""Tests that the table of error codes equals Kafka's own."""

import pytest

from proxy.wire.error_codes import ERRORS, KafkaError, kafka_error
from proxy.wire.error_messages import error_message
from tests.java.kafka_json import kafka_json_of


def test_codes_have_the_names_of_kafka() -> None:
    assert kafka_error(0) == KafkaError(0, "NONE", False)
    assert kafka_error(6) == KafkaError(6, "NOT_LEADER_OR_FOLLOWER", True)
    assert kafka_error(79).name == "MEMBER_ID_REQUIRED"


def test_the_codes_run_from_minus_one_without_a_hole() -> None:
    assert list(ERRORS) == list(range(-1, len(ERRORS) - 1))


def test_no_two_codes_share_a_name() -> None:
    assert len({entry.name for entry in ERRORS.values()}) == len(ERRORS)


def test_a_code_newer_than_the_table_keeps_its_number() -> None:
    assert kafka_error(32000) == KafkaError(32000, "ERROR_32000", False)


@pytest.mark.real
def test_names_and_retriability_are_those_of_kafkas_own_enum() -> None:
    """`Errors` of 4.3.1 has the beginning of the table, that of 4.4.0 all of it."""
    ours = {code: (entry.name, entry.retriable) for code, entry in ERRORS.items()}
    kafkas = kafka_json_of("4.3.1").errors()
    assert ours.items() >= kafkas.items()
    assert len(kafkas) == 135
    assert ours == kafka_json_of("4.4.0").errors()


@pytest.mark.real
def test_messages_are_those_of_kafkas_own_exceptions() -> None:
    assert {code: error_message(code) for code in ERRORS} == kafka_json_of("4.4.0").error_messages()
