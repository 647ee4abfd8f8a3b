"""One step of an examination, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple


class Outcome(StrEnum):
    """What a step has shown. NOTE: nothing is wrong for a proxy, but something could not be looked at, or is near."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


class Step(NamedTuple):
    """One step.

    name: "dns", "tcp", "tls", "versions", "login", "nodes", "node", "produce", "consume".
    at: what was looked at: an address, or a partition.
    said: what was seen, in words.
    right: what would be right; "" if nothing is wrong.
    facts: the same for programs: values that JSON can have.
    """

    name: str
    at: str
    outcome: Outcome
    said: str
    right: str = ""
    facts: Mapping[str, Any] = MappingProxyType({})
