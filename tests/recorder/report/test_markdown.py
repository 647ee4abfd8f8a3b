"""Tests of the report as Markdown, read by an independent parser as a pull request or a chat would."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from recorder.analysis.summary.whole import Summary
from recorder.report.capture import markdown
from recorder.report.markdown import MOST_ROWS, escaped
from tests import hostile_text
from tests.recorder.report import some_summaries as summaries
from tests.sweeps import examples
from tests.tables import each_row

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
NAMES = ["lively", "quiet", "nothing", "judged_nowhere", "hostile"]


def tokens(text: str) -> list[Token]:
    """Returns all tokens, also those within lines."""
    return [one for token in PARSER.parse(text) for one in (token, *(token.children or []))]


@each_row("name", NAMES)
def test_foreign_text_in_markdown_is_text(name: str) -> None:
    summary: Summary = getattr(summaries, name)()
    found = markdown(summary)
    assert {token.type for token in tokens(found)} & {
        "html_inline",
        "html_block",
        "link_open",
        "image",
        "fence",
    } == set()
    assert hostile_text.obeyed(found) == []


@examples(300)
@given(st.text(st.sampled_from("ab \\`*_{}[]()<>#+-=.!|~&^$:/@0w\"'"), max_size=30))
def test_any_text_is_shown_as_it_is(text: str) -> None:
    shown = "".join(token.content for token in tokens(f"a{escaped(text)}z") if token.type == "text")
    assert shown == f"a{text.strip()}z".replace("\\", "\\\\")


@each_row("text", ["- a", "+ a", "1. a", "2) a", "3.", "# a", "> a", "===", "    a"], ids=str)
def test_a_text_that_begins_a_line_begins_nothing_else(text: str) -> None:
    assert [token.type for token in PARSER.parse(escaped(text))] == ["paragraph_open", "inline", "paragraph_close"]


def test_findings_stand_first_with_advice_and_commands() -> None:
    found = markdown(summaries.lively(), "my capture")
    headings = re.findall(r"^##? (.*)", found, re.MULTILINE)
    assert headings[0] == "6 findings: 3 critical, 2 warnings, 1 notice"
    assert headings[1].startswith("1. 61.0 MB of traffic were not recorded")
    assert "**What to do:** Look at the disk" in found
    assert "\n    kafka-wiretap inspect show 'my capture' 12/e4117\n" in found


def test_small_tables_follow_and_large_ones_do_not() -> None:
    found = markdown(summaries.lively())
    assert "| Produce | 181 204 |" in found
    assert "orders-writer" not in found


def test_each_table_has_as_many_cells_in_each_row() -> None:
    parsed = PARSER.parse(markdown(summaries.hostile()))
    heads = [token for token in parsed if token.type == "thead_open"]
    assert len(heads) == len([token for token in parsed if token.type == "table_open"]) > 4


def test_a_long_table_says_what_it_leaves_out() -> None:
    summary = summaries.lively()
    rows = tuple(replace(summary.errors.errors.rows[0], code=at) for at in range(MOST_ROWS + 3))
    long = replace(summary, errors=replace(summary.errors, errors=replace(summary.errors.errors, rows=rows)))
    assert "3 more rows in the report" in markdown(long)


@pytest.mark.real
def test_markdown_needs_no_package_of_an_extra() -> None:
    """Markdown for a chat must not need the packages of a page."""
    program = (
        "import sys\n"
        "for name in ('jinja2', 'altair', 'vl_convert', 'pyspark'): sys.modules[name] = None\n"
        "from recorder.report.capture import markdown\n"
        "from recorder.analysis.summary.whole import Summary\n"
        "print(markdown(Summary()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:19]) == (0, "# Nothing to report"), done.stderr
