"""A number at the head of a page, for the templates of all reports."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    """A large number at the head of the page. `tone`: of the text beside it: good, warn, bad, or ""."""

    name: str
    number: str
    beside: str = ""
    tone: str = ""
