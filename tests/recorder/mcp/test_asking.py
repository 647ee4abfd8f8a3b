"""Tests of running a command within limits."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from recorder.mcp import asking
from recorder.mcp.asking import Commands, Limits, Told

LIMITS = Limits(rows=100, bytes=1 << 20, seconds=60)


@pytest.mark.real
def test_output_that_is_too_long_is_not_kept_and_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> Told:
        command = ["inspect", "exchanges", str(folder), "--json"]
        return await Commands(1).ask(command, LIMITS, rows_of=lambda text: [len(text)], is_document=True)

    assert anyio.run(told).cut is None
    monkeypatch.setattr(asking, "MAX_LINE", 10)
    cut = anyio.run(told)
    assert (cut.rows, cut.cut) == ([], "a row of it is longer than 10 B")
