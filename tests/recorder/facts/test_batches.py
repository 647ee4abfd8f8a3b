"""Tests of batches with verified checksums, some of them unfolded."""

from __future__ import annotations

import zlib
from typing import Any

from proxy.wire import records
from proxy.wire.records import Compression
from recorder.facts.batches import BATCHES, SAMPLED
from tests.recorder.facts.frames import own, response


def fetched(*batches: bytes) -> dict[str, Any]:
    partition = {"partition_index": 0, "records": b"".join(batches)}
    return response(1, 12, {"responses": [{"topic": "t", "partitions": [partition]}]})


def made(number: int, codec: Compression = Compression.NONE) -> bytes:
    return records.write_batch([records.Record(number, value=b"%d" % number * 50)], codec=codec)


def test_a_damaged_batch_is_shown_apart_from_those_around_it() -> None:
    damaged = bytearray(made(1))
    damaged[-1] ^= 1
    old = records.write_message_set([records.Record(3, value=b"v")], magic=1)
    rows = own(BATCHES, fetched(made(0), bytes(damaged), made(2)), fetched(old))
    assert [row["is_intact"] for row in rows] == [True, False, True, True]


def test_one_of_sixteen_plain_batches_is_compressed_as_a_sample() -> None:
    plain = [made(number) for number in range(400)]
    chosen = [one for one in plain if int.from_bytes(one[17:21]) % SAMPLED == 0]
    rows = own(BATCHES, fetched(*plain))
    sampled = [(row["sampled_bytes"], row["folded_bytes"]) for row in rows if "sampled_bytes" in row]
    assert [size for size, _ in sampled] == [len(one) for one in chosen]
    # with another window zlib ends its blocks elsewhere
    assert all(abs(folded - len(zlib.compress(one, 1))) <= 4 for (_, folded), one in zip(sampled, chosen, strict=True))
    assert 10 < len(sampled) < 50
    folded = own(BATCHES, fetched(*(made(number, Compression.GZIP) for number in range(100))))
    assert not any("sampled_bytes" in row for row in folded)
