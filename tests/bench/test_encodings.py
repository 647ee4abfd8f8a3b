"""Tests that the study's page has the figures of the bench, and that its claims about the document hold."""

import re
from pathlib import Path

import pytest

from bench import encodings
from bench.encodings import CASES, PARTITIONS, VERSION, Case
from proxy.wire import varints
from proxy.wire.language import parse
from tests.tables import each_row

PAGE = (Path(__file__).parents[2] / "docs" / "encodings.md").read_text("utf-8")
cases = each_row("case", CASES, ids=lambda case: case.name)


@pytest.mark.real
@cases
def test_every_case_is_written_and_read(case: Case) -> None:
    codec = encodings.codec(case)
    data = codec.encode(case.values)
    values, end = codec.decode(data)
    assert end == len(data)
    assert codec.encode(values) == data
    assert len(values["topics"][0]["partitions"]) == PARTITIONS
    assert f" {len(data)} |" in "".join(encodings.size_table())


def test_the_page_has_the_table_of_sizes_and_every_assumption() -> None:
    assert "\n".join(encodings.size_table()) in PAGE
    assert all(f"- {one}" in PAGE for one in encodings.ASSUMPTIONS)


def test_times_are_ratios_to_the_fixed_encoding_of_each_round() -> None:
    rows = encodings.measure(rounds=2, seconds=0.0001)
    assert [row.case for row in rows] == list(CASES)
    assert rows[0].serialize == rows[0].deserialize == (1.0, 1.0)
    assert all(ratio > 0 for row in rows for ratio in row.serialize + row.deserialize)
    assert [row.documents is not None for row in rows] == [True] * 3 + [False] * 4
    table = encodings.time_table(rows)
    assert table[3].startswith("| unsigned, at best | ")
    assert "| 1.16 |" in table[3], "65226 / 56458"
    assert table[3].endswith("| 1.02 |"), "14713 / 14416"


def test_no_number_of_replicas_fits_both_the_fixed_and_the_worst_figure() -> None:
    """`grown`: the most by which the body's nine other integers can grow, a byte each."""
    fixed, worst = CASES[0].bytes, CASES[2].bytes
    assert fixed
    assert worst
    for grown in range(10):
        for ids in range(2000):
            rest = fixed - 17 * PARTITIONS - 4 * ids
            assert rest < 0 or rest + grown != worst - 21 * PARTITIONS - 5 * ids


def test_the_ranges_on_the_page_are_those_of_the_encodings() -> None:
    rows = re.findall(r"(?m)^\| (\d) \| .* \| ([-\d]+) to ([-\d]+), ([-\d]+) to ([-\d]+) \| (\d+) to (\d+) \|$", PAGE)
    rows += [(size, low, high, low, high, *unsigned) for size, low, high, *unsigned in single(PAGE)]
    assert sorted(row[0] for row in rows) == list("12345")
    for size, *edges in rows:
        for edge in map(int, edges[:4]):
            assert len(varints.signed(32, edge)) == int(size)
        for edge in map(int, edges[4:]):
            assert len(varints.unsigned(32, edge - 2**32 if edge >= 2**31 else edge)) == int(size)
    assert {int(edge) + 1 for row in rows for edge in (row[2], row[4], row[6])} <= {
        *(int(edge) for row in rows for edge in (row[1], row[3], row[5])),
        2**31,
        2**32,
    }, "one range begins where another ends"


def single(page: str) -> list[tuple[str, ...]]:
    """Returns the row of the numbers around 0, which are one range."""
    return re.findall(r"(?m)^\| (\d) \| [^|]* \| ([-\d]+) to ([-\d]+) \| (\d+) to (\d+) \|$", page)


def test_the_two_forms_on_the_page_are_the_same_message() -> None:
    types, encoded = map(parse, re.findall(r"(?ms)^```text\n(MetadataResponse.*?)^```$", PAGE))
    assert types == encoded
    (message,) = types
    assert message.name == encodings.response().name
    assert VERSION in message.versions


def test_the_command_prints_the_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert encodings.main(["--sizes"]) == 0
    assert "\n".join(encodings.size_table()) in capsys.readouterr().out
