"""Tests of docs/inspect.md: its examples run, and its table of fields is that of the language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recorder.query.fields import FIELDS
from recorder.query.language import parse

PAGE = (Path(__file__).parents[3] / "docs" / "inspect.md").read_text()
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SETUP, *EXAMPLES = re.split(r"^# (?=\d\.)", CODE, flags=re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split(".", 1)[0])
def test_each_example_runs(folder: Path, example: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(EXAMPLES) == 5
    opened = SETUP.replace('"capture"', repr(str(folder)))
    exec(compile(f"{opened}\n# {example}", "docs/inspect.md", "exec"), {})
    assert "Error" not in capsys.readouterr().out


def test_the_table_names_each_field_with_its_meaning() -> None:
    rows = [
        f"| `{field.name}` | {field.kind.value} | {field.level.value} | {field.meaning} |" for field in FIELDS.values()
    ]
    start = PAGE.index(rows[0])
    assert PAGE[start:].split("\n\n", 1)[0].splitlines() == rows


@pytest.mark.parametrize("text", re.findall(r"`((?:topic|error|key|session|api|client) [^`…]*[a-zA-Z0-9\"])`", PAGE))
def test_each_filter_of_the_page_is_one(text: str) -> None:
    assert parse(text)
