"""A number at the head of a page: what a template shows of every report."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A number that stands large at the head of the page. `tone`, of what is beside it: good, warn, bad, or ""."""

    name: str
    number: str
    beside: str = ""
    tone: str = ""
