from pathlib import Path

from proxy.metrics.reference import reference
from proxy.metrics.table import METRICS

ROOT = Path(__file__).parents[3]


def test_the_page_is_in_force() -> None:
    """`make docs` updates it."""
    assert (ROOT / "docs" / "metrics.md").read_text() == reference()


def test_every_metric_has_a_row_of_five_cells() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert len(rows) == len(METRICS)
    assert all(row.count(" | ") == 4 for row in rows)
