from __future__ import annotations

from pathlib import Path

import pytest

from recorder.capture.frames import EVENTS_FOLDER, FRAMES_FOLDER
from recorder.capture.partitions import FACTS_FOLDER
from recorder.capture.session import SPOOL_FOLDER
from recorder.mcp.captures import MAX_DEPTH, captures_in


def made(folder: Path, part: str = FRAMES_FOLDER) -> Path:
    (folder / part).mkdir(parents=True)
    return folder


def test_a_folder_that_is_a_capture_has_its_own_name_and_those_below_their_paths(tmp_path: Path) -> None:
    one = made(tmp_path / "one")
    two, three = made(tmp_path / "all" / "two"), made(tmp_path / "all" / "east" / "three", SPOOL_FOLDER)
    assert captures_in([one, tmp_path / "all"]) == {"one": one, "all/two": two, "all/east/three": three}


def test_captures_of_one_name_are_told_apart(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a" / "capture"), made(tmp_path / "b" / "capture")
    assert captures_in([first, second]) == {"capture": first, "capture (2)": second}


def test_captures_within_a_capture_and_those_that_are_too_deep_have_no_name(tmp_path: Path) -> None:
    made(made(tmp_path / "given" / "capture") / "inner")
    deepest = tmp_path.joinpath("given", *map(str, range(MAX_DEPTH)))
    made(deepest)
    made(deepest.parent / "x" / "y")
    assert [*captures_in([tmp_path / "given"]).values()] == [deepest, tmp_path / "given" / "capture"]


@pytest.mark.parametrize("part", [FRAMES_FOLDER, EVENTS_FOLDER, FACTS_FOLDER, SPOOL_FOLDER])
def test_no_link_leads_out_of_the_folders_that_were_given(tmp_path: Path, part: str) -> None:
    secret = made(made(tmp_path / "secret"), part) if part != FRAMES_FOLDER else made(tmp_path / "secret")
    given = tmp_path / "given"
    made(given / "own", SPOOL_FOLDER if part == FRAMES_FOLDER else FRAMES_FOLDER)
    (given / "linked").symlink_to(secret)
    (given / "own" / part).symlink_to(secret / part)
    assert captures_in([given]) == {}


def test_a_hostile_name_of_a_folder_is_shown_as_escapes(tmp_path: Path) -> None:
    capture = made(tmp_path / "a\x1b[2J\nb")
    assert captures_in([capture]) == {"a\\u001b[2J\\nb": capture}


def test_a_folder_that_is_gone_holds_no_captures(tmp_path: Path) -> None:
    assert captures_in([tmp_path / "gone"]) == {}
