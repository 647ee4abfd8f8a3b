"""Tests that docs/upgrade.md names the formats that this version writes, and the version itself."""

from pathlib import Path

from proxy.net.state.file import FORMAT as STATE_FORMAT
from recorder.capture.frames import FORMAT as CAPTURE_FORMAT
from recorder.capture.spool import SPOOL_FORMAT
from tests.packaging.test_version import VERSION

PAGE = (Path(__file__).parents[2] / "docs" / "upgrade.md").read_text()


def test_the_page_names_the_formats_that_are_written() -> None:
    assert f"| frames and events (Parquet; format {CAPTURE_FORMAT};" in PAGE
    assert f"| log and the compactor's states (`_spool`, format {SPOOL_FORMAT};" in PAGE
    assert f"| the state file (`_nodes.json`, format {STATE_FORMAT})" in PAGE


def test_the_page_is_about_this_version() -> None:
    assert f"\n## Upgrade from 0.1.0 to {VERSION}\n" in PAGE
