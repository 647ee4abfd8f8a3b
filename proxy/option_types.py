"""The types of options and arguments, for all commands: what a user wrote -> a value, or one sentence.

The types of sizes, times and addresses are the kinds of settings: what is right in a file is right on a command line.
An unset option has no value, so that no type reads it; a default is written as a user would write it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proxy.command_line import text
from proxy.schema.addresses import BROKERS as _BROKERS
from proxy.schema.kinds import LIMIT, SECONDS, Kind

if TYPE_CHECKING:
    Type = click.ParamType[Any]
else:
    # click 8.1 knows no types of values
    Type = click.ParamType

SECOND = 10**9


class ReadBy(Type):
    """The type whose values a function reads.

    Args:
        metavar: the placeholder for a value in `--help`.
        read: the text that a user wrote -> the value. Raises ValueError.
        right: right values, for the sentence about a wrong one.
        fault: what is wrong with any text that `read` refuses; None: what its error says.
    """

    def __init__(self, metavar: str, read: Callable[[str], Any], right: str, fault: str | None = None) -> None:
        self.name = metavar
        self.read, self._right, self._fault = read, right, fault

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """The placeholder as it stands: click would write choices in capitals, in which they are wrong."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value. Raises BadParameter; a value that was read already is returned as it is."""
        if not isinstance(value, str):
            return value
        written = text(value)
        try:
            return self.read(written)
        except ValueError as error:
            raise _refused(written, self._fault or error, self._right, param, ctx) from None


class Whole(click.IntRange):
    """The type of whole numbers of a range. `right`: a right value, for the sentence about a wrong one."""

    def __init__(self, least: int, most: int, right: str) -> None:
        super().__init__(least, most)
        self._least, self._most, self._right = least, most, right

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises BadParameter."""
        try:
            number = int(value)
        except ValueError:
            raise _refused(text(value), "is no whole number", self._right, param, ctx) from None
        if not self._least <= number <= self._most:
            bound = f"less than {self._least}" if number < self._least else f"more than {self._most}"
            raise _refused(str(value), f"is {bound}", self._right, param, ctx)
        return number


def _refused(
    written: str, fault: object, right: str, param: click.Parameter | None, ctx: click.Context | None
) -> click.BadParameter:
    # an argument has no name that anybody types
    named = f"{param.opts[0]} " if isinstance(param, click.Option) else ""
    return click.BadParameter(f"{written!r} {fault}; right would be {named}{right}", ctx, param)


def placeholder(kind: Kind) -> str:
    """What stands for a value in `--help`: all choices, if they are few."""
    return "|".join(kind.choices) or kind.metavar


def of_kind(kind: Kind, right: str, *, metavar: str = "", made: Callable[[Any], Any] = lambda value: value) -> ReadBy:
    """The type whose values are those of a kind of settings. `made`: the kind's value -> the option's."""
    return ReadBy(metavar or placeholder(kind), lambda written: made(kind.read(written)), right)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * SECOND)


# bytes, above zero
SIZE = of_kind(LIMIT, "1GiB")
# nanoseconds
TIME = of_kind(SECONDS, "500ms, 10s or 2m", metavar="TIME", made=_nanoseconds)
# addresses with a host and a port
BROKERS = of_kind(_BROKERS, "broker-1:9092,broker-2:9092")

# how many of something
COUNT = Whole(0, sys.maxsize, "10")
# a number in a column of int64
LARGEST_NUMBER = (1 << 63) - 1
NUMBER = Whole(0, LARGEST_NUMBER, "0")
# the place in a list, from 1 on
POSITION = Whole(1, sys.maxsize, "1")
# rows that a terminal shows
ROWS = Whole(1, 100_000, "20")

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def percent(most: float) -> click.FloatRange:
    """The type of percentages up to `most`."""
    return click.FloatRange(0, most)
