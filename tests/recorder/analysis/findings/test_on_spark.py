"""Tests of Spark's plans for rules."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.analysis.findings.rules import RULES
from tests.recorder.analysis.by_hand import each_second

pytestmark = pytest.mark.real
ON_SPARK = True
# rules over exchanges that hold further values besides their cases
RULES_OF_EXCHANGES = ("slow", "slow_consumer", "throttled")


@pytest.mark.parametrize("name", RULES_OF_EXCHANGES)
def test_a_rule_reads_the_exchanges_once(tables: Any, name: str) -> None:
    (rule,) = (rule for rule in RULES if rule.name == name)
    found: Any = rule.find(tables(each_second(15)))
    plan: str = found._jdf.queryExecution().optimizedPlan().toString()
    assert "Aggregate" in plan
    assert "Join" not in plan
