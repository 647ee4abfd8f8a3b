"""Renders rich's output as text, and checks what must hold on every terminal."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import Any

from rich.cells import cell_len
from rich.console import Console, RenderableType

from tests.hostile_text import obeyed

WIDTHS = (60, 100, 160)


def drawn(parts: Iterable[RenderableType], width: int, *, terminal: bool = False) -> str:
    paper = StringIO()
    colours: dict[str, Any] = {"color_system": "standard" if terminal else None}
    console = Console(file=paper, width=width, highlight=False, force_terminal=terminal, **colours)
    for part in parts:
        console.print(part)
    return paper.getvalue()


def check(text: str, width: int) -> None:
    """Asserts that no line is wider than the terminal, and that nothing in it controls the terminal."""
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert obeyed(text) == []
