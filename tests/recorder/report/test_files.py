"""Tests of a report's file: its form by its name, missing requirements, and that it is whole or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder import extras
from recorder.replay.results.report import read
from recorder.report.files import CantReport, check, write
from tests.recorder.replay import some_results as results


@pytest.mark.parametrize("name", ["report.json", "report.html", "REPORT.HTML"])
def test_both_forms_are_written_and_read(tmp_path: Path, name: str) -> None:
    write(results.different(), tmp_path / name)
    assert read(tmp_path / name) == results.different()
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["report", "report.txt", "report.html.gz"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CantReport, match=r"ends with \.json or \.html"):
        check(tmp_path / name)


def test_a_missing_folder_is_reported_before_the_replay(tmp_path: Path) -> None:
    with pytest.raises(CantReport, match="can't be written"):
        check(tmp_path / "no-folder" / "report.json")


def test_only_html_needs_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "altair" else object())
    with pytest.raises(extras.MissingPackages, match=r"^not installed: altair; .* -m pip install '\.\[report\]'$"):
        check(tmp_path / "report.html")
    check(tmp_path / "report.json")


def test_an_earlier_report_stays_whole_where_the_new_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report.json"
    write(results.equal(), file)

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="No space"):
        write(results.different(), file)
    assert read(file) == results.equal()
    assert [one.name for one in tmp_path.iterdir()] == ["report.json"]
