"""The settings of the log on standard error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from proxy.schema.keys import Key
from proxy.schema.kinds import choice


class Level(StrEnum):
    """The lowest severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Format(StrEnum):
    """The format of an event."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log on standard error."""

    level: Annotated[Level, Key(choice(Level), "level", "The least important events that are logged.", "info")] = (
        Level.INFO
    )
    format: Annotated[
        Format, Key(choice(Format), "format", "One line an event: for people, or a JSON object.", "json")
    ] = Format.TEXT
