"""Tests that docs/findings.md matches the rules."""

from __future__ import annotations

from pathlib import Path
from string import Formatter

from recorder.analysis.findings.listing import page
from recorder.analysis.findings.rule import Rule
from recorder.analysis.findings.rules import RULES
from tests.tables import each_row

PAGE = Path(__file__).parents[4] / "docs" / "findings.md"


def test_the_page_is_up_to_date() -> None:
    """`make docs` updates the page."""
    assert PAGE.read_text() == "\n".join(page()) + "\n"


def test_each_rule_has_a_name_of_its_own() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)


@each_row("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_asks_a_question_and_says_a_sentence_with_its_measure_or_its_subject(rule: Rule) -> None:
    fields = {field for _, field, _, _ in Formatter().parse(rule.says) if field}
    assert rule.question.endswith("?")
    assert fields & {"measure", "cases", "subject"}
    assert not rule.says.endswith(".")
    assert rule.advice.endswith(".")
    assert rule.threshold > 0
