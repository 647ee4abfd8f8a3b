from pathlib import Path

import pytest

from bench import spool
from bench.contenders import LISTENING
from bench.processes import build, running


@pytest.mark.real
def test_everything_is_recorded_and_as_much_is_copied(tmp_path: Path) -> None:
    programs = build(tmp_path)
    with running([programs.broker], tmp_path / "broker.log", LISTENING) as broker:
        upstream = f"{broker.said[1]}:{broker.said[2]}"
        recorded = spool.recorded(programs.load, upstream, tmp_path / "one", 0.05)
    assert recorded.size > 2**20
    copied = spool.copied(tmp_path, recorded.size)
    assert abs(copied.size - recorded.size) <= 2**19
    assert recorded.rate > 0 < copied.rate
    assert not (tmp_path / "one").exists(), "and nothing is left"
