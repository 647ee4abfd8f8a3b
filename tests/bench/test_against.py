"""Tests of the bench of two checkouts, at its smallest size."""

import re
from pathlib import Path

import pytest

from bench import against
from bench.against import OTHER, table
from bench.contenders import PROXY
from bench.loads import LOADS, Sample
from bench.processes import ROOT

LONE, BURST = (load for load in LOADS if load.name in ("lone", "burst"))
# of two rounds: more exchanges, in more microseconds, and in more of a processor
ROUNDS = {PROXY: [Sample(110, 2.1), Sample(110, 2.1)], OTHER: [Sample(100, 2.0), Sample(100, 2.0)]}


def test_a_ratio_above_1_is_better_whether_rates_or_times_are_measured() -> None:
    assert "as fast as the other 1.100 (1.10-1.10)" in table(BURST, ROUNDS)
    assert "as fast as the other 0.909 (0.91-0.91)" in table(LONE, ROUNDS)


def test_the_verdict_is_that_of_the_processor_time() -> None:
    assert table(BURST, ROUNDS).endswith(" 0.952 (0.95-0.95), 2.10 us to 2.00; target 0.95: reached")
    slow = {PROXY: [Sample(110, 2.2)], OTHER: [Sample(100, 2.0)]}
    assert table(BURST, slow).endswith("target 0.95: MISSED")


@pytest.mark.real
@pytest.mark.long
def test_a_checkout_is_compared_with_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert against.main([str(ROOT), "--rounds", "1", "--seconds", "0.1", "--only", "burst"]) == 0
    assert re.search(r"in as little of a processor \d+\.\d{3} ", capsys.readouterr().out)


@pytest.mark.real
@pytest.mark.long
def test_the_other_proxy_is_that_of_the_other_checkout(tmp_path: Path) -> None:
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy" / "__init__.py").touch()
    (tmp_path / "proxy" / "cli.py").write_text("def main():\n    raise SystemExit('this is the other one')\n")
    with pytest.raises(RuntimeError, match="this is the other one"):
        against.main([str(tmp_path), "--rounds", "1"])
