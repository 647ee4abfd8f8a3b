"""Tests of finding the acks of a Produce request, in each version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation.acks import ACKS_SIZE, acks_at
from proxy.wire import apis, catalog
from proxy.wire.errors import Malformed, Truncated
from proxy.wire.framing import framed
from proxy.wire.primitives import uvarint
from tests.tables import each_row

VERSIONS = apis.versions(0)


def acks_of(data: bytes, at: int, version: int) -> int:
    acks = acks_at(data, at, version)
    return int.from_bytes(data[acks : acks + ACKS_SIZE], "big", signed=True)


@given(
    version=st.sampled_from(list(VERSIONS)),
    acks=st.sampled_from([0, 1, -1]),
    client_id=st.one_of(st.none(), st.text(max_size=40)),
    transactional_id=st.one_of(st.none(), st.text(max_size=40)),
)
def test_the_acks_are_those_that_the_codec_wrote(
    version: int, acks: int, client_id: str | None, transactional_id: str | None
) -> None:
    values = {"acks": acks, "timeout_ms": 1, "topic_data": []}
    if version >= 3:
        values["transactional_id"] = transactional_id
    frame = framed(catalog.encode_request(0, version, 7, client_id, values))
    assert acks_of(b"before" + frame, 6, version) == acks


@each_row("version", VERSIONS)
def test_every_prefix_that_ends_before_the_acks_is_truncated(version: int) -> None:
    values = {"acks": 0, "timeout_ms": 1, "topic_data": []} | ({"transactional_id": "t"} if version >= 3 else {})
    frame = framed(catalog.encode_request(0, version, 7, "client", values))
    whole = next(end for end in range(len(frame) + 1) if _reads(frame[:end], version))
    for end in range(12, whole):
        with pytest.raises(Truncated):
            acks_of(frame[:end], 0, version)
    assert whole <= len(frame) - 4


def _reads(data: bytes, version: int) -> bool:
    try:
        acks_of(data, 0, version)
    except Truncated:
        return False
    return True


def test_a_string_of_a_negative_length_is_no_produce_request() -> None:
    with pytest.raises(Malformed):
        acks_of(b"\0" * 12 + b"\x80\x00" + b"\0" * 20, 0, 3)


def test_a_head_of_tags_without_end_is_no_produce_request() -> None:
    few, many = (b"\0" * 14 + uvarint(count) + b"\1\0" * 9 for count in (9, 10_000))
    with pytest.raises(Truncated):
        acks_of(few, 0, 9)
    with pytest.raises(Malformed):
        acks_of(many, 0, 9)
