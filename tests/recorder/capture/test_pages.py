"""Tests of page headers, as pyarrow writes them and as hostile files may have them."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recorder.capture.frames import DamagedFileError, frames_schema
from recorder.capture.pages import check_pages, pages
from tests.tables import each_row

TABLE = pa.table(
    {
        "texts": pa.array(["a" * 5000, None, "b", "é" * 3] * 3000),
        "numbers": pa.array(range(12_000), pa.int64()),
        "lists": pa.array([[{"start": 1, "length": 2}] * 3, []] * 6000, frames_schema().field("masked").type),
        "nothing": pa.nulls(12_000, pa.binary()),
    }
)


def columns(file: io.BytesIO) -> list[Any]:
    footer = pq.read_metadata(file)
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    return [group.column(at) for group in groups for at in range(group.num_columns)]


@each_row("version", ["1.0", "2.0"])
@each_row("codec", ["zstd", "snappy", "none"])
@each_row("dictionary", [True, False], ids=["dictionary", "plain"])
def test_pages_written_by_pyarrow_agree_with_their_footer(version: str, codec: str, dictionary: bool) -> None:
    file = io.BytesIO()
    how: dict[str, Any] = {"compression": codec, "use_dictionary": dictionary, "data_page_version": version}
    pq.write_table(TABLE, file, row_group_size=5000, data_page_size=4096, write_page_checksum=True, **how)
    for column in columns(file):
        check_pages(file, column)


@pytest.mark.parametrize("longest", [1, 1000], ids=["short", "long"])
def test_a_header_is_read_whole_however_long_its_smallest_and_largest_values_are(longest: int) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"texts": ["a" * longest, "b" * longest]}), file, use_dictionary=False, compression="none")
    (column,) = columns(file)
    (page,) = pages(file, column)
    # a text stands behind its length
    assert (page.values, page.unfolded) == (2, file.getvalue()[page.at :].index(b"b") + longest)
    assert page.stored == page.unfolded


FACTS = ("path_in_schema", "dictionary_page_offset", "data_page_offset", "total_compressed_size")
CLAIMS = ("total_uncompressed_size", "num_values")


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_footer_that_says_less_than_the_pages_is_found_out(claim: str) -> None:
    file = io.BytesIO()
    pq.write_table(TABLE, file, data_page_size=4096)
    for column in columns(file):
        told = {name: getattr(column, name) for name in (*FACTS, *CLAIMS)}
        lie = SimpleNamespace(**told | {claim: 0})
        with pytest.raises(DamagedFileError, match=f"the pages of {column.path_in_schema}"):
            check_pages(file, lie)


@given(
    st.binary(max_size=60) | st.lists(st.sampled_from([0x15, 0x1C, 0x19, 0x18, 0, 2, 255, 128]), max_size=60).map(bytes)
)
@example(b"\x11\x11\x11\0")  # sizes that are booleans
@example(b"\x25\x00\x15\x00\x1c\0\0")  # a checksum that is a struct
def test_any_bytes_are_pages_or_damaged(data: bytes) -> None:
    huge = SimpleNamespace(
        path_in_schema="x", dictionary_page_offset=None, data_page_offset=0, total_compressed_size=len(data)
    )
    huge.total_uncompressed_size = huge.num_values = 1 << 62
    with suppress(DamagedFileError):
        check_pages(io.BytesIO(data), huge)


def test_a_header_is_not_believed_however_deep_or_long_it_is() -> None:
    column = SimpleNamespace(
        path_in_schema="x", dictionary_page_offset=None, data_page_offset=0, total_compressed_size=1 << 20
    )
    for data in (b"\x1c" * 70_000, b"\x15" + b"\xff" * 70_000, b"\x19\xf5\xff\xff\xff\xff\x0f" + b"\0" * 70_000):
        with pytest.raises(DamagedFileError, match="a page's header"):
            check_pages(io.BytesIO(data), column)


def test_files_of_captures_keep_to_their_footers(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist([{"session": "s", "frame": b"f" * 70_000}] * 20, frames_schema()), path)
    with path.open("rb") as file:
        for column in columns(io.BytesIO(path.read_bytes())):
            check_pages(file, column)


@pytest.mark.parametrize(("number", "reason"), [(1 << 64, "more than 64 bits"), ((1 << 64) - 1, "without a size")])
def test_a_number_of_a_header_has_64_bits_at_most(number: int, reason: str) -> None:
    column = SimpleNamespace(
        path_in_schema="x", dictionary_page_offset=None, data_page_offset=0, total_compressed_size=1 << 20
    )
    groups = [number >> shift & 127 for shift in range(0, 70, 7)]
    varint = bytes([*(group | 128 for group in groups[:-1]), groups[-1]])
    with pytest.raises(DamagedFileError, match=reason):
        check_pages(io.BytesIO(b"\x16" + varint + b"\0"), column)
