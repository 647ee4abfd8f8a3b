"""The progress of a running replay: a line that is redrawn on a terminal, or one line after the other in a pipe.

The caller decides when: every `EVERY_NS` on a terminal, and in a pipe as often as any command that is at work for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType, TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from recorder import terminal
from recorder.replay.outcome import Progress
from recorder.replay.results import words

# on a terminal, as often as a person can read a number
EVERY_NS = 250_000_000
_BAR_WIDTH = 24
# time without progress after which a person wonders why
STANDSTILL_NS = 10**9
NOTHING: Mapping[str, int] = MappingProxyType({})


class LiveProgress:
    """Shows the progress on a console that others may print to meanwhile."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    @property
    def every_ns(self) -> int:
        """How long the caller waits between two calls of `show`."""
        return EVERY_NS if self._live else int(terminal.EVERY_SECONDS * 10**9)

    def __enter__(self) -> LiveProgress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, now: Progress, waits: Mapping[str, int] = NOTHING) -> None:
        """Shows the progress, on a terminal in place of the last one.

        `waits`: what the replay waits for, if nothing moves.
        """
        if self._live:
            self._live.update(drawn(now, waits), refresh=True)
            return
        line = f"{words.position(now)}: {words.progress(now)}"
        more = f"; {words.waits(waits)}" if waits else ""
        self._console.print(line + more, soft_wrap=True, markup=False)


class Standstill:
    """Tells whether a replay has stood still for a while."""

    def __init__(self) -> None:
        self._last, self._since = Progress(), 0

    def lasts(self, now: Progress, at_ns: int) -> bool:
        """True once nothing was sent, answered or withheld for `STANDSTILL_NS`. `at_ns`: of any clock."""
        if now != self._last:
            # a copy: a replay counts on in its own
            self._last, self._since = replace(now), at_ns
        return at_ns - self._since >= STANDSTILL_NS


def drawn(now: Progress, waits: Mapping[str, int] = NOTHING) -> RenderableType:
    """A bar with the position in the recording, the counts below it, and what the replay waits for."""
    bar = ProgressBar(total=max(now.span_ns, 1), completed=min(now.position_ns, now.span_ns), width=_BAR_WIDTH)
    place = Table.grid(padding=(0, 1, 0, 0))
    place.add_row(bar, Text(words.position(now)))
    both = Table.grid()
    both.add_row(place)
    both.add_row(_counts(now))
    if waits:
        both.add_row(Text(words.waits(waits), "yellow"))
    return both


def _counts(now: Progress) -> Text:
    """The counts; those that need attention are coloured."""
    text = Text(words.progress(now))
    for number, style, what in ((now.withheld, "yellow", "withheld"), (now.mismatches, "bold red", "differs?")):
        if number:
            text.highlight_regex(rf"[\d ]+ {what}", style)
    return text
