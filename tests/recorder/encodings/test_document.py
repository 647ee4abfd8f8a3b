"""Recalculates each contradiction of KAFKA-9927's document."""

from __future__ import annotations

from pathlib import Path

from proxy.wire import varints
from recorder.encodings.document import CONTRADICTIONS, FIGURES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "encodings.md"
FIXED, _, WORST = (one.bytes for one in FIGURES)


def test_every_number_of_a_contradiction_stands_on_the_page() -> None:
    page = PAGE.read_text().replace(",", "")
    for one in CONTRADICTIONS:
        numbers = [word.strip(",;:") for word in one.split() if word.strip(",;:-").isdigit() and len(word) > 3]
        assert [number for number in numbers if number not in page] == [], one


def test_bodies_are_smaller_than_the_formulas_partitions() -> None:
    assert FIXED < 100 * (17 + 4 * 4) == 3300
    assert WORST < 100 * (21 + 5 * 4) == 4100


def test_no_number_of_ids_fits_both_bodies() -> None:
    """From fixed to worst, each id and each of the partitions' 400 other numbers grow by a byte, as do nine more."""
    least = WORST - FIXED - 400 - 9
    assert least == 401
    assert 100 * 17 + 4 * least == 3304 > FIXED


def test_varints_take_other_bytes_than_it_says() -> None:
    assert len(varints.signed(32, -63)) == 1
    assert len(varints.signed(64, -(2**63))) == len(varints.unsigned(64, -1)) == 10
    assert [len(varints.signed(32, 134_217_728 - at)) for at in (0, 1)] == [5, 4]
    assert [len(varints.unsigned(32, 268_435_456 - at)) for at in (0, 1)] == [5, 4]
    assert [len(varints.unsigned(16, error)) for error in (127, 128, 255, 256, 16383, 16384, -1)] == [
        1,
        2,
        2,
        2,
        2,
        3,
        3,
    ]
