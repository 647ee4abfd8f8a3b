"""Measures the program's work as the number of its lines that are executed: the same on every machine.

The interpreter's work within a line is not counted, so a line must not hide a loop over a peer's bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
OURS = (str(ROOT / "proxy"), str(ROOT / "recorder"))


def work(job: Callable[[], object]) -> int:
    """Counts the program's lines that `job` executes; every execution counts."""
    lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return count if frame.f_code.co_filename.startswith(OURS) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        job()
    finally:
        sys.settrace(before)
    return lines
