"""Tests that docs/apis.md matches the catalog."""

from pathlib import Path

from proxy.tools.page import lines

PAGE = Path(__file__).parents[3] / "docs" / "apis.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == "\n".join(lines()) + "\n", "run `make docs`"
