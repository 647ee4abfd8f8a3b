"""Reads the user's own thresholds: a TOML file of rules' names and numbers, such as `hot_partition = 4.0`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from proxy.limited_files import UnusableFile, content_of, tables
from proxy.similar import nearest
from proxy.terminal import printable


class WrongThresholds(ValueError):
    """The file can't be used. The text says what would be right."""


def read(path: Path, rules: Iterable[str]) -> dict[str, float]:
    """The thresholds in a file. Errors: WrongThresholds."""
    shown = printable(path)
    try:
        values = tables(content_of(path))
    except UnusableFile as error:
        raise WrongThresholds(f"{shown} {printable(error)}") from None
    return checked(values, [*rules], shown)


def checked(values: Mapping[str, object], rules: list[str], shown: str) -> dict[str, float]:
    """The values, if each has the name of a rule and is a number above 0. Errors: WrongThresholds."""
    for name, value in values.items():
        if name not in rules:
            near = nearest(name, rules)
            hint = f"; meant is perhaps {near}" if near else f"; rules are {', '.join(rules)}"
            raise WrongThresholds(f"{shown}: there is no rule {printable(name)}{hint}")
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
            raise WrongThresholds(f"{shown}: {name} = {printable(value)} is no number above 0")
    return {name: float(str(value)) for name, value in values.items()}
