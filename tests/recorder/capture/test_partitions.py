"""Tests of the folders of hours: their names, and that only folders are entered."""

from pathlib import Path

import pytest

from proxy.files import Folder, StrangeFileError
from recorder.capture.partitions import hour_folders, hours

NOON = 13 + 24 * 20_000


def test_an_hour_is_named_by_date_and_hour_of_utc() -> None:
    assert hour_folders(0) == ("date=1970-01-01", "hour=00")
    assert hour_folders(NOON) == ("date=2024-10-04", "hour=13")


def found(capture: Path) -> list[tuple[str, str, list[str]]]:
    with Folder.at(capture) as opened:
        return [(date, hour, folder.names()) for date, hour, folder in hours(opened, "frames")]


def test_all_hours_are_found_and_nothing_else(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    for hour in (NOON, NOON + 1, NOON + 24):
        folder = tmp_path.joinpath("frames", *hour_folders(hour))
        folder.mkdir(parents=True)
        (folder / f"{hour}.parquet").touch()
    (tmp_path / "frames" / "_temporary").mkdir()
    (tmp_path / "frames" / "date=2024-10-04" / "notes").mkdir()
    assert found(tmp_path) == [
        ("2024-10-04", "13", [f"{NOON}.parquet"]),
        ("2024-10-04", "14", [f"{NOON + 1}.parquet"]),
        ("2024-10-05", "13", [f"{NOON + 24}.parquet"]),
    ]


@pytest.mark.parametrize("link", ["frames", "frames/date=2024-10-04", "frames/date=2024-10-04/hour=13"])
def test_a_link_to_a_folder_is_not_entered(tmp_path: Path, link: str) -> None:
    (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path)
    with pytest.raises(StrangeFileError, match=f"{link} is a symbolic link, not a folder"):
        found(tmp_path)
