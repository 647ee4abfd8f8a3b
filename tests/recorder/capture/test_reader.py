"""Tests of reading rows from a capture: the wanted ones, in order, without loading unwanted bodies."""

import random
import shutil
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from proxy.wire.apis import api_name
from recorder.capture import columns, reader
from recorder.capture import frames as c
from recorder.capture.compactor import compact
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.pages import pages
from recorder.capture.rows import RECORD_APIS
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from tests.recorder.capture import looks, traffic
from tests.recorder.capture.traffic import Player, Talk


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Talk]]:
    """A capture of two sessions of one connection each, and what they said."""
    folder, made = tmp_path_factory.mktemp("recorded"), []
    for seed in range(2):
        rng = random.Random(seed)
        made.append(traffic.cut(rng, traffic.talk(rng, seed, 20), 400))
        tap = open_tap(folder, RecordSettings(segment=2_000), f"s{seed}")
        player = Player(tap)
        player.open(made[-1])
        for chunk in made[-1].chunks:
            player.play(seed, chunk)
            tap.flush()
        player.close(seed)
        tap.close()
    compact(folder)
    return folder, made


@pytest.fixture
def talks(recorded: tuple[Path, list[Talk]], tmp_path: Path) -> list[Talk]:
    """What was said in the recorded sessions, whose capture is in `tmp_path`."""
    folder, made = recorded
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return made


@pytest.mark.real
def test_rows_come_session_by_session_each_kind_of_frame_in_the_order_of_the_log(
    talks: list[Talk], tmp_path: Path
) -> None:
    rows = list(looks.rows(tmp_path, ["session", "connection", "sequence", "frame", "api"]))
    wanted = [
        (f"s{n}", n, row["sequence"], row["frame"], api_name(row["api_key"]))
        for n in range(2)
        for row in traffic.expected(talks[n])
    ]
    for carries_records in (True, False):
        found = [tuple(row.values()) for row in rows if (row["api"] in RECORD_APIS) == carries_records]
        assert found == [row for row in wanted if (row[-1] in RECORD_APIS) == carries_records]
        assert found


@pytest.mark.real
def test_a_capture_of_format_1_is_read_whose_row_groups_hold_all_frames(talks: list[Talk], tmp_path: Path) -> None:
    rows = [*looks.rows(tmp_path)]
    for file in reader.files(tmp_path):
        table = pa.concat_tables(reader.row_groups(file))
        mixed = table.sort_by([("connection", "ascending"), ("sequence", "ascending")])
        pq.write_table(mixed.replace_schema_metadata({c.FORMAT_KEY: b"1"}), file.path)
    key = itemgetter("session", "connection", "sequence")
    assert sorted(looks.rows(tmp_path), key=key) == sorted(rows, key=key)
    assert rows


def test_only_wanted_rows_and_columns_come(talks: list[Talk], tmp_path: Path) -> None:
    where = (pc.field("api") == "Metadata") & (pc.field("kind") == "response")
    rows = list(looks.rows(tmp_path, ["api_version"], where=where))
    wanted = [
        r["api_version"]
        for talk in talks
        for r in traffic.expected(talk)
        if r["api_key"] == 3
        if r["kind"] == "response"
    ]
    assert [row["api_version"] for row in rows] == wanted
    assert {len(row) for row in rows} == {1}


def test_files_are_listed_with_what_their_names_say(talks: list[Talk], tmp_path: Path) -> None:
    (tmp_path / "frames" / "date=2024-01-01" / "hour=00").mkdir(parents=True)
    (tmp_path / "frames" / "date=2024-01-01" / "hour=00" / ".s0-1-1.parquet").touch()
    found = reader.files(tmp_path)
    assert {file.session for file in found} == {"s0", "s1"}
    assert [file.first for file in found if file.session == "s0"] == sorted(
        {f.first for f in found if f.session == "s0"}
    )
    assert reader.files(tmp_path / "missing") == []


def test_a_file_that_is_no_part_of_a_capture_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "frames" / "date=2024-01-01" / "hour=00"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), folder / "s-1-1.parquet")
    with pytest.raises(UnknownFormatError):
        list(looks.rows(tmp_path))


@pytest.mark.parametrize("name", ["part-0001.parquet", "s-1-x.parquet"])
def test_a_file_that_is_called_like_no_part_of_a_capture_is_named(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "frames" / "date=2024-01-01" / "hour=00"
    folder.mkdir(parents=True)
    (folder / name).touch()
    with pytest.raises(UnknownFormatError, match=name):
        reader.files(tmp_path)


def test_a_file_that_is_removed_while_a_capture_is_read_is_named(talks: list[Talk], tmp_path: Path) -> None:
    file = reader.files(tmp_path)[0]
    looks.local_path(file).unlink()
    with pytest.raises(DamagedFileError, match=rf"{file.path.name} can't be read: it was removed meanwhile"):
        list(reader.row_groups(file))


@pytest.mark.parametrize("damage", ["empty", "torn", "garbage", "within", "names"])
def test_a_file_that_is_damaged_is_named(talks: list[Talk], tmp_path: Path, damage: str) -> None:
    path = looks.local_path(reader.files(tmp_path)[0])
    content = bytearray(path.read_bytes())
    content[4:] = content[4:].replace(b"\x28\xb5\x2f\xfd", b"none")
    # the column's name is in the footer's metadata and in its schema
    names = path.read_bytes().replace(c.KIND.encode(), b"\xff" * len(c.KIND))
    kept: dict[str, bytes | bytearray] = {
        "empty": b"",
        "torn": content[: len(content) // 2],
        "garbage": b"x" * 100,
        "within": content,
    }
    kept["names"] = names
    path.write_bytes(kept[damage])
    with pytest.raises(DamagedFileError, match=path.name) as damaged:
        list(looks.rows(tmp_path))
    assert "\n" not in str(damaged.value)


def test_no_flipped_bit_of_a_page_passes(talks: list[Talk], tmp_path: Path) -> None:
    rng = random.Random(1)
    file = reader.files(tmp_path)[0]
    path = looks.local_path(file)
    whole, group = path.read_bytes(), pq.read_metadata(path).row_group(0)
    with path.open("rb") as opened:
        stored = [page for at in range(group.num_columns) for page in pages(opened, group.column(at))]
    assert all(page.crc is not None for page in stored)
    for page in rng.sample(stored, 5):
        broken = bytearray(whole)
        broken[page.at + rng.randrange(page.stored)] ^= 1 << rng.randrange(8)
        path.write_bytes(broken)
        with pytest.raises(DamagedFileError):
            list(reader.row_groups(file))


def test_a_row_group_is_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_ROWS", 3)
    rng = random.Random(5)
    talk = traffic.cut(rng, traffic.talk(rng, 0, 10), 10)
    tap = open_tap(tmp_path, RecordSettings())
    Player(tap).all_of([talk])
    tap.close()
    compact(tmp_path)
    (file,) = reader.files(tmp_path)
    tables = list(reader.row_groups(file))
    assert len(tables) > 3
    assert sum(len(table) for table in tables) == len(traffic.expected(talk))
    assert tables[0].schema.names == list(reader.ALL)
    assert c.FRAME not in next(iter(reader.row_groups(file, reader.HEADS))).schema.names


@pytest.mark.real
def test_a_files_footer_tells_when_its_first_and_last_frame_arrived(talks: list[Talk], tmp_path: Path) -> None:
    for file in reader.files(tmp_path):
        times = pq.read_table(file.path, columns=["at_ns"])["at_ns"]
        assert reader.times_of(file) == (pc.min(times).as_py(), pc.max(times).as_py())
        table = pq.ParquetFile(file.path).read()
        pq.write_table(table, file.path, write_statistics=False)
        assert reader.times_of(file) is None
        pq.write_table(table.slice(0, 0), file.path)
        assert reader.times_of(file) is None
