"""Tests of arguments as people type them: a value, or a sentence about the error. See test_names.py, too."""

from collections.abc import Callable
from typing import Any

import click
import pytest

from proxy.tools import arguments
from proxy.wire.dialects import Dialect
from proxy.wire.kafka07 import RequestType
from tests.tables import each_row


def test_an_api_of_0_7_is_distinguished_from_kafkas_api_of_its_number() -> None:
    assert [type(arguments.api(text)) for text in ("0.7/fetch", "fetch", "1")] == [RequestType, int, int]
    assert arguments.api_or_embedded("0.7/Offsets") == (RequestType.OFFSETS, None)
    assert arguments.api_or_embedded("MetadataResponse") == (3, "response")


def test_a_version_is_a_number_or_the_dialect_that_has_none() -> None:
    assert [arguments.version(text) for text in ("12", 12, "0.7")] == [12, 12, Dialect.KAFKA_07]


@each_row(
    ("read", "text", "said"),
    [
        (arguments.api, "fetsch", "near: Fetch"),
        (arguments.api_or_embedded, "0.7/fetsch", "near: 0.7/fetch"),
        (arguments.inside, "0.7/fetch", "is an API"),
        (arguments.error, "xyzzy", "no error is called 'xyzzy'"),
        (arguments.version, "0.8", "'0.8' is not a valid integer"),
        (arguments.octets, "0g", "'g' stands in it"),
    ],
    ids=["api", "api-07", "inside", "error", "version", "octets"],
)
def test_a_bad_argument_is_refused_with_a_reason(read: Callable[[str], Any], text: str, said: str) -> None:
    with pytest.raises(click.BadParameter, match=said):
        read(text)


def test_a_former_name_of_kafka_is_noted_beside_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert (arguments.api("Send"), arguments.error("NoError"), arguments.inside("MemberAssignment")) == (
        0,
        0,
        "ConsumerProtocolAssignment",
    )
    assert capsys.readouterr() == (
        "",
        "note: Send is called Produce today\nnote: NoError is called NONE today\n"
        "note: MemberAssignment is called ConsumerProtocolAssignment today\n",
    )
