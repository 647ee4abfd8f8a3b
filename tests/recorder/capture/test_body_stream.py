"""Tests of bodies read from pages: the same as Arrow's, or an error for broken pages."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.capture import body_stream
from recorder.capture.frames import DamagedFileError
from recorder.capture.pages import pages

MIB = 1 << 20
# a page with this many bodies of 1 MiB, and the most memory that reading it may take
PAGE_MIB, MAX_TAKEN = 96, 24 * MIB
# small bodies among large ones, so blocks end anywhere
BODIES = st.none() | st.binary(max_size=5) | st.integers(0, 3 * body_stream.BLOCK).map(bytes)


def stored(bodies: list[bytes | None], *, nullable: bool = True, **how: Any) -> io.BytesIO:
    """Writes a Parquet file of one row group, with these bodies in its one column."""
    file = io.BytesIO()
    schema = pa.schema([pa.field("frame", pa.binary(), nullable)])
    how = {"compression": "zstd", "use_dictionary": False} | how
    pq.write_table(pa.table([pa.array(bodies, pa.binary())], schema=schema), file, row_group_size=len(bodies), **how)
    return file


def column(file: io.BytesIO) -> Any:
    return pq.read_metadata(file).row_group(0).column(0)


@given(
    bodies=st.lists(BODIES, min_size=1, max_size=60),
    repeats=st.integers(1, 30),
    page=st.sampled_from([1, 1 << 12, MIB]),
    batch=st.sampled_from([1, 7, 1024]),
    codec=st.sampled_from(["zstd", "none"]),
    start=st.integers(0, 100),
)
def test_bodies_are_those_that_were_written(
    bodies: list[bytes | None], repeats: int, page: int, batch: int, codec: str, start: int
) -> None:
    written = [body and body[:300] for body in bodies * repeats] if repeats > 1 else bodies
    nullable = None in written
    file = stored(
        written, nullable=nullable, data_page_size=page, write_batch_size=batch, compression=codec, max_rows_per_page=50
    )
    assert body_stream.can_stream(file, column(file))
    assert [*body_stream.bodies(file, column(file), nullable=nullable, first=start)] == written[start:]


@pytest.mark.parametrize(
    "how",
    [{"use_dictionary": True}, {"data_page_version": "2.0"}, {"compression": "snappy"}],
    ids=["dictionary", "version-2", "snappy"],
)
def test_pages_that_captures_do_not_have_are_left_to_arrow(how: dict[str, Any]) -> None:
    file = stored([b"one", b"two"], **how)
    assert not body_stream.can_stream(file, column(file))


@given(
    places=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3),
    codec=st.sampled_from(["zstd", "none"]),
)
def test_a_page_with_wrong_bytes_is_damaged_or_has_other_bodies(places: list[tuple[int, int]], codec: str) -> None:
    file = stored([b"one", None, b"x" * 100, b""] * 5, compression=codec)
    described, data = column(file), bytearray(file.getvalue())
    for place, byte in places:
        data[described.data_page_offset + place % described.total_compressed_size] = byte
    broken = io.BytesIO(bytes(data))
    with suppress(DamagedFileError):
        if body_stream.can_stream(broken, described):
            assert sum(len(body or b"") for body in body_stream.bodies(broken, described, nullable=True)) <= 1 << 20


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_page_that_ends_early_is_damaged(cut: int) -> None:
    file = stored([bytes(range(256)) * 4] * 3, compression="none")
    described = column(file)
    end = described.data_page_offset + described.total_compressed_size
    with pytest.raises(DamagedFileError):
        [*body_stream.bodies(io.BytesIO(file.getvalue()[: end - cut]), described, nullable=True)]


@given(data=st.data(), codec=st.sampled_from(["zstd", "none"]))
def test_no_flipped_bit_passes_in_a_page_with_a_checksum(data: st.DataObject, codec: str) -> None:
    file = stored([b"one", None, b"x" * 100, b""] * 5, compression=codec, write_page_checksum=True)
    described = column(file)
    (page,) = pages(file, described)
    broken = bytearray(file.getvalue())
    broken[page.at + data.draw(st.integers(0, page.stored - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DamagedFileError, match="checksum"):
        next(body_stream.bodies(io.BytesIO(bytes(broken)), described, nullable=True))


@pytest.mark.real
def test_a_row_group_of_one_page_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    path.write_bytes(stored([bytes([number]) * MIB for number in range(PAGE_MIB)], write_batch_size=1024).getvalue())
    program = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
from recorder.capture import body_stream
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
path, before = Path(sys.argv[1]), peak()
with path.open("rb") as file:
    column = pq.read_metadata(path).row_group(0).column(0)
    assert sum(map(len, body_stream.bodies(file, column, nullable=True))) == int(sys.argv[2])
print(peak() - before)
"""
    command = [sys.executable, "-c", program, str(path), str(PAGE_MIB * MIB)]
    taken = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout) * 1024
    assert taken < MAX_TAKEN
