"""Tests of decoding bytes outside of frames."""

from typing import Any

import pytest

from proxy.tools.bare import Bare, trees
from proxy.tools.tree import Shown
from proxy.wire import embedded, kafka07, records
from proxy.wire.dialects import Dialect
from proxy.wire.errors import Malformed, Truncated

OPEN = Shown()
SCRAM = {
    "name": "me",
    "mechanism": 1,
    "salt": b"salt",
    "stored_key": b"stored",
    "server_key": b"server",
    "iterations": 4096,
}


def test_an_empty_selection_means_a_frame() -> None:
    assert not Bare()
    assert not Bare(key=b"")
    assert Bare("ConsumerProtocolAssignment")
    assert Bare(batches=True)
    assert Bare(topic="__consumer_offsets")


def test_a_batch_and_the_cut_bytes_after_it_are_dicts() -> None:
    whole = records.write_batch([records.Record(5, 1000, b"k", b"v")])
    one, cut = trees(whole + whole[:-1], Bare(batches=True), OPEN)
    assert one["records"] == [{"offset": 5, "timestamp": 1000, "key": b"k", "value": b"v"}]
    assert cut["why"] == "a batch that is cut"


def test_a_log_of_0_7_is_its_messages() -> None:
    first, second = kafka07.messages.message(b"first"), kafka07.messages.message(b"second", magic=0)
    old = Bare(batches=True, dialect=Dialect.KAFKA_07)
    one, two, cut = trees(first + second + first[:-1], old, OPEN)
    assert [(one["at"], one["payload"]), (two["at"], two["payload"])] == [(0, b"first"), (len(first), b"second")]
    assert cut["why"] == "a message that is cut"
    assert list(trees(first, old, Shown(records=0))) == [{"more_messages": 1}]
    for data, why in ((b"", "no bytes"), (b"\0\0\0\1\0", "can't be read"), (first[:-1], "a message that is cut")):
        with pytest.raises(Malformed, match=f"no message of 0.7: {why}"):
            list(trees(data, old, OPEN))


def test_a_record_without_a_value_is_a_tombstone() -> None:
    key = bytes.fromhex("0002 0001 67")
    (one,) = trees(b"", Bare(topic="__consumer_offsets", key=key), OPEN)
    assert (one["key"]["message"], one["value"]) == ("GroupMetadataKey", None)


def test_secrets_stay_hidden() -> None:
    codec = embedded.codec("UserScramCredentialRecord", 0)
    assert codec is not None
    value = b"\1" + bytes([codec.message.key or 0]) + b"\0" + codec.encode(SCRAM)
    data = records.write_batch([records.Record(0, 0, None, value)])
    for bare, given in (
        (Bare(topic="__cluster_metadata"), value),
        (Bare(batches=True, topic="__cluster_metadata"), data),
    ):
        assert b"stored" in _leaves(list(trees(given, bare, OPEN)))
        assert b"stored" not in _leaves(list(trees(given, bare, Shown(mask=True))))


def _leaves(tree: Any) -> list[Any]:
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else None
    return [tree] if inner is None else [leaf for one in inner for leaf in _leaves(one)]


def test_an_unknown_version_is_shown_with_its_bytes() -> None:
    (one,) = trees(b"\0\x63", Bare("OffsetCommitValue"), OPEN)
    assert (one["why"], one["bytes"]) == ("unknown: version 99 of 0-4 known", b"\0\x63")


def test_bytes_that_can_not_be_decoded_raise_a_wire_error() -> None:
    with pytest.raises(Truncated):
        list(trees(b"\0", Bare("OffsetCommitValue"), OPEN))
    with pytest.raises(Truncated):
        list(trees(b"\0", Bare(topic="__consumer_offsets", key=b"\0\1\0"), OPEN))
    with pytest.raises(Malformed, match="no record batch"):
        list(trees(b"\1" * 99, Bare(batches=True), OPEN))
