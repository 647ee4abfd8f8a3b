"""Tests of Kafka's texts of errors. test_error_codes.py compares them with Kafka's own."""

from proxy.wire.error_codes import ERRORS
from proxy.wire.error_messages import error_message


def test_every_error_has_a_sentence() -> None:
    assert {code for code in ERRORS if not error_message(code)} == {0}
    assert error_message(6).startswith("For requests intended only for the leader, this error indicates that ")
    assert error_message(32000) == ""


def test_continued_lines_are_joined() -> None:
    assert not [code for code in ERRORS if "  " in error_message(code) or "\n" in error_message(code)]
