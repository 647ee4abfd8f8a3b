"""Workers write the rows of a pass into a file a table, which hold what each decoder makes alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.analysis.decode import shelved
from recorder.analysis.decode.checked_batches import CHECKED_BATCHES
from recorder.analysis.decode.rows import Askers, Decoder, decoded_together
from recorder.analysis.decode.topic_partitions import TOPIC_PARTITIONS
from recorder.analysis.together import OF_REPORT
from recorder.capture.frames import frames_schema
from tests.recorder.analysis.decode.frames import rows
from tests.recorder.analysis.decode.test_together import FETCHED, PRODUCED, SPOILT, WHOLE, wanted

FRAME = st.builds(lambda row, other: row | other, st.sampled_from(WHOLE), st.sampled_from(SPOILT))


def batches(frames: Sequence[dict[str, Any]], decoders: Sequence[Decoder]) -> Iterator[tuple[Decoder, Any]]:
    askers = Askers(decoders)
    table = pa.Table.from_pylist([*frames], frames_schema()).select(askers.reads)
    return decoded_together(table.to_batches(3), askers)


def files(found: Iterator[Any]) -> dict[str, str]:
    """The file of each table."""
    (told,) = found
    return dict(zip(*(told.column(name).to_pylist() for name in (shelved.TABLE, shelved.FILE)), strict=True))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=st.lists(FRAME, max_size=8))
def test_a_file_holds_the_rows_that_its_decoder_makes_alone(tmp_path: Path, frames: list[dict[str, Any]]) -> None:
    found = files(shelved.shelved(batches(frames, OF_REPORT), str(tmp_path)))
    for decoder in OF_REPORT:
        alone = rows(decoder, *wanted(frames, decoder))
        assert (decoder.name in found) == bool(alone), decoder.name
        if alone:
            table = pq.read_table(found[decoder.name])
            assert table.schema.equals(decoder.table.arrow_schema)
            assert table.to_pylist() == alone, decoder.name


def test_small_batches_share_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [PRODUCED, FETCHED] * 20
    monkeypatch.setattr(shelved, "_MOST_ROWS", 10)
    (file,) = files(shelved.shelved(batches(frames, [CHECKED_BATCHES]), str(tmp_path))).values()
    footer = pq.read_metadata(file)
    assert [footer.row_group(at).num_rows for at in range(footer.num_row_groups)] == [12, 12, 12, 4]


def test_the_files_of_a_task_that_fails_are_no_others(tmp_path: Path) -> None:
    """A task that is tried again writes files of its own."""

    def broken() -> Iterator[tuple[Decoder, Any]]:
        yield from batches([PRODUCED], [TOPIC_PARTITIONS])
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        files(shelved.shelved(broken(), str(tmp_path)))
    found = files(shelved.shelved(batches([PRODUCED, FETCHED], [TOPIC_PARTITIONS]), str(tmp_path)))
    assert pq.read_table(found[TOPIC_PARTITIONS.name]).num_rows == 2
