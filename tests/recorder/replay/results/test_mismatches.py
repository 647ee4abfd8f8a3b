"""Tests of stored mismatches: they are short, and hold nothing that a capture may not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.wire.keys import DESCRIBE_CONFIGS, METADATA
from recorder.replay.outcome import Difference, Mismatch
from recorder.replay.plan import Exchange, Origin, Peer
from recorder.replay.results import mismatches
from tests.recorder.replay import some_results as results
from tests.tables import each_row


def exchange(api_key: int, version: int = 1) -> Exchange:
    return Exchange(Origin("s", 1, 2), api_key, version, b"\0" * 14, 0, 0, Peer("10.0.0.1", "app"))


def of_answer(api_key: int, answer: bytes) -> Mismatch:
    return mismatches.of_exchange(exchange(api_key), "values", [], answer)


def test_the_targets_answer_is_kept_without_secrets() -> None:
    found = results.secret_mismatch()
    assert found.replayed is not None
    assert found.recorded is not None
    assert results.SECRET.encode() not in found.replayed.octets
    # the capture has zeros in place of the secret; so has the replayed response, which is otherwise unchanged
    assert found.replayed == found.recorded


def test_a_difference_of_a_secret_shows_no_value() -> None:
    assert results.secret_mismatch().differences == (
        Difference("results[2 orders].configs[sasl.jaas.config].value", "masked", "masked"),
    )


@each_row("name", ["a", "a.b", "a]b", "a].b[c", "[", ""], ids=["plain", "dot", "end", "both", "begin", "no"])
def test_a_secret_is_hidden_whatever_its_element_is_called(name: str) -> None:
    told = Difference(f"results[2 {name}].configs[{name}].value", "hunter2", "")
    (found,) = mismatches.of_exchange(exchange(DESCRIBE_CONFIGS), "value", [told], None).differences
    assert found == Difference(told.path, "masked", "")


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\1", b"\0\0\0\1" + b"hunter2" * 9], ids=["empty", "cut", "nonsense"])
def test_an_answer_that_may_hold_secrets_and_cannot_be_read_is_not_kept(answer: bytes) -> None:
    found = of_answer(DESCRIBE_CONFIGS, answer).replayed
    assert found is not None
    assert (found.octets, found.size_bytes) == (b"", len(answer))


def test_a_long_answer_is_kept_in_part_and_marked() -> None:
    found = of_answer(METADATA, b"x" * (mismatches.MOST_BYTES + 1)).replayed
    assert found is not None
    assert found.is_cut
    assert (len(found.octets), found.size_bytes) == (mismatches.MOST_BYTES, mismatches.MOST_BYTES + 1)


def test_a_missing_answer_is_none() -> None:
    assert results.produce_mismatch().replayed is None


def test_many_differences_and_long_values_are_cut() -> None:
    many = [Difference(f"topics[{at}].name", "x" * 10_000, "") for at in range(mismatches.MOST_DIFFERENCES + 3)]
    found = mismatches.of_exchange(exchange(METADATA), "values", many, None)
    assert (len(found.differences), found.more) == (mismatches.MOST_DIFFERENCES, 3)
    assert len(found.differences[0].recorded) == mismatches.MOST_LETTERS + len(" ...")


def test_an_api_without_a_name_has_its_key() -> None:
    assert mismatches.of_exchange(replace(exchange(9999)), "values", [], b"1234").api == "api 9999"
