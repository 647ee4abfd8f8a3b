"""A command's filters: the options of time, filters in words, and the answer if nothing passes: what the capture holds.

The notations of times have a module of their own, because executors read them, and have no click.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from proxy.option_types import ReadBy
from proxy.terminal import printable
from proxy.wire import apis, kafka07
from proxy.wire.dialects import Dialect
from recorder.moments import RIGHT, read, written
from recorder.terminal import count, moment

# as `moments.read` has it
MOMENT = ReadBy("TIME", read, RIGHT, "is no time")
SINCE = click.option(
    "--since",
    type=MOMENT,
    help="From this time on (UTC): 2026-11-21T13:48, 13:48 on the last frame's day, -5m before the last frame.",
)
UNTIL = click.option("--until", type=MOMENT, help="Up to this time.")

# How many of the capture's APIs are named.
_NAMED = 20


class Held(NamedTuple):
    """What a capture holds: the times of its first and its last frame (ns since 1970), and its APIs."""

    first_ns: int | None
    last_ns: int | None
    apis: tuple[str, ...] = ()


def api_name(key: int, dialect: str | None) -> str:
    """The name of an API as the column `api` has it."""
    if dialect == Dialect.KAFKA_07:
        return kafka07.RequestType(key).api
    return apis.name_or_key(key)


def as_options(
    *,
    apis: Sequence[tuple[int, str | None]] = (),
    since_ns: int | None = None,
    until_ns: int | None = None,
    **values: Sequence[object],
) -> str:
    """The filters as options of a command: "--api Fetch --client my-app". `values`: those of other options, by name."""
    every = {"api": [api_name(*api) for api in apis], **values}
    return " ".join([*_as_options(every), *_times(since_ns, until_ns)])


def _as_options(values: dict[str, Sequence[object]]) -> Iterator[str]:
    for option, several in values.items():
        for value in several:
            yield f"--{option} {shlex.quote(printable(value))}"


def _times(since_ns: int | None, until_ns: int | None) -> Iterator[str]:
    for option, at_ns in (("since", since_ns), ("until", until_ns)):
        if at_ns is not None:
            yield f"--{option} {written(at_ns)}"


def nothing_passes(what: str, options: str, held: Held | None) -> str:
    """The sentence in place of an empty list.

    `what`: the singular of what was listed. `options`: `as_options`. `held`: None if that can't be read.
    """
    passes = f"no {what} passes {options}" if options else f"no {what}"
    if held is None:
        return passes
    if held.first_ns is None or held.last_ns is None:
        return f"{passes}: the capture holds no frame"
    named = ", ".join(map(printable, sorted(held.apis)[:_NAMED]))
    more = f" and {count(len(held.apis) - _NAMED)} more" if len(held.apis) > _NAMED else ""
    of = f", of {named}{more}" if held.apis else ""
    return f"{passes}: the capture holds frames from {moment(held.first_ns)} to {moment(held.last_ns)} UTC{of}"
