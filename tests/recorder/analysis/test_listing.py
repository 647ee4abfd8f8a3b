"""Tests that docs/tables.md matches the tables' declarations."""

from __future__ import annotations

from pathlib import Path

from recorder.analysis.listing import described, page
from recorder.analysis.sources import SOURCES

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"


def test_the_page_is_up_to_date() -> None:
    """`make docs` updates the page."""
    assert PAGE.read_text() == "\n".join(page()) + "\n"


def test_a_description_names_every_column() -> None:
    told = "\n".join(described(SOURCES["records"].table))
    assert all(name in told for name in SOURCES["records"].table.names)
