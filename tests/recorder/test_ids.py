"""Tests of ids, read from what people and programs give."""

from __future__ import annotations

import pytest

from recorder.ids import Id, exchange_in, id_in
from tests.tables import each_row


@each_row(
    ("text", "found"),
    [
        ("4", Id(None, 4)),
        ("4/17", Id(None, 4, sequence=17)),
        ("4/e8", Id(None, 4, exchange=8)),
        ("20261121T13/4", Id("20261121T13", 4)),
        ("20261121T13/4/17", Id("20261121T13", 4, sequence=17)),
        ("2026/4/e8", Id("2026", 4, exchange=8)),
        ("s/1/0", Id("s", 1, sequence=0)),
    ],
)
def test_an_id_names_a_connection_an_exchange_or_a_frame(text: str, found: Id) -> None:
    assert id_in(text) == found
    assert str(found) == text


@each_row(
    "text",
    [
        "",
        "x",
        "4/",
        "/4",
        "4/x8",
        "4/17/9/1",
        "a/b/c",
        "e8",
        "-1",
        f"4/{1 << 63}",
        f"{1 << 70}",
        "1" * 5000,
        # would take hours if the time grew with the square of its length
        "a" * (1 << 20),
        "\u0664/\u0661",
    ],
)
def test_what_is_no_id_is_not_read(text: str) -> None:
    assert id_in(text) is None


def test_an_exchange_is_named_by_its_whole_id() -> None:
    assert exchange_in("20261121T130500Z-abc/4/e8") == ("20261121T130500Z-abc", 4, 8)
    for text in ("4/e8", "20261121T13/4", "20261121T13/4/17", "", "x"):
        with pytest.raises(ValueError, match="this is no exchange's id; right would be SESSION/CONNECTION/eNUMBER"):
            exchange_in(text)
