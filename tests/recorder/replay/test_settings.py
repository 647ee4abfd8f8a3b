"""Tests of a replay's settings file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recorder.replay.login.logins import EVERYBODY, logins
from recorder.replay.settings import BadReplaySettings, read_settings

DOCS = Path(__file__).parents[3] / "docs" / "replay.md"


def test_the_example_of_the_docs_is_read_to_its_last_login(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    for name in re.findall(r'password_file = "(.*?)"', example):
        (tmp_path / Path(name).name).write_text("secret")
        example = example.replace(name, Path(name).name)
    (tmp_path / "replay.toml").write_text(example)
    found = read_settings(tmp_path / "replay.toml")
    assert found.nodes == {1: 4}
    known = logins({"login": found.logins}, found.folder)
    assert [*known.entries] == ["alice", EVERYBODY]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[logins."User:alice"]', "has \\[logins\\]: right would be one of login, nodes, tls"),
        ("nodes = 1", "nodes is no section: right would be \\[nodes\\]"),
        ("[nodes]\none = 4", "nodes.one is no pair of node ids: right would be 1 = 4"),
        ("[nodes]\n1 = -4", "nodes.1 is no pair of node ids"),
        ("[nodes", r"replay.toml is no TOML \(Expected"),
        ("x = " + "[" * 5000, r"is no TOML \(its lists or tables nest too deep\)"),
    ],
    ids=["another section", "no section", "no id", "a negative id", "no TOML", "deep"],
)
def test_a_wrong_file_is_refused_in_a_sentence_that_says_what_is_right(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "replay.toml").write_text(text)
    with pytest.raises(BadReplaySettings, match=sentence):
        read_settings(tmp_path / "replay.toml")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadReplaySettings, match=r"can't be read \(No such file or directory\)$"):
        read_settings(tmp_path / "replay.toml")


def test_a_device_that_never_ends_is_refused() -> None:
    with pytest.raises(BadReplaySettings, match=r"^/dev/zero is longer than 16 MiB$"):
        read_settings(Path("/dev/zero"))
