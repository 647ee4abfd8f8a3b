"""Every setting that a page shows is one, with a right value: all fences of TOML, but those of a replay's own file."""

from __future__ import annotations

from pathlib import Path

from proxy.settings.load import read
from tests.docs.shown import ROOT, fences
from tests.tables import each_row

# has a settings file of its own kind
NOT_THE_PROXYS = {"replay.md"}
SHOWN = [
    (page, text)
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if page.name not in NOT_THE_PROXYS
    for text in fences(page.read_text(), {"toml"})
]
# what a reader has yet to make: the files that settings name, and the cluster where only a recorder's keys are shown
EXPECTED = ("No such file or directory", "clusters names no cluster")


@each_row("page, text", SHOWN, ids=str)
def test_each_setting_that_a_page_shows_is_one(tmp_path_factory, page: Path, text: str) -> None:
    file = tmp_path_factory.mktemp("shown") / "wiretap.toml"
    file.write_text(text)
    wrong = [error for error in read(file, environment={}).error_lines if not any(known in error for known in EXPECTED)]
    assert wrong == [], page
