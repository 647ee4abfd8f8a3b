"""The tutorial does what it says: its commands run, the report has its finding, and the mended client has none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.brokers.ports import Reserved
from tests.docs.shown import ROOT, run


@pytest.mark.real
@pytest.mark.timeout(600)
def test_the_commands_of_the_tutorial_find_what_it_says(tmp_path: Path) -> None:
    listener = Reserved("127.0.0.1")
    printed = run("tutorial.md", tmp_path, {"19092": str(listener.port)})
    listener.release()
    page = " ".join((ROOT / "docs" / "tutorial.md").read_text().split())
    (finding,) = re.findall(r"has a finding: `(.*?)`", page)
    assert "Nothing is missing" in printed
    before, after = printed.split(finding, 1)
    assert "times_in_seconds" not in before
    assert "Findings: 1 gone" in after
