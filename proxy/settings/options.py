"""The flags of `kafka-wiretap proxy` as click's options, made of the keys that they set: help, default, completion.

A key is looked up when its flag is typed or shown: a proxy that doesn't record never imports the recorder's.
"""

from __future__ import annotations

import re
from typing import Any

import click
from click.shell_completion import CompletionItem

from proxy.config import ClusterSettings, LogSettings, ProxySettings
from proxy.schema.flags import CAPTURE, CLUSTERS, FLAGS, MAIN, flag_at, flag_of
from proxy.schema.keys import Known, keys_of
from proxy.schema.toml import plain

# kinds of paths, by the words that stand for them
_PATHS = {"FILE": click.Path(dir_okay=False), "FOLDER": click.Path(file_okay=False)}
_KEYS = {
    (*place, *below): known
    for place, settings in (((CLUSTERS, MAIN), ClusterSettings), (("log",), LogSettings), ((), ProxySettings))
    for below, known in keys_of(settings).items()
}
_KEY_NAME = re.compile(r"`([a-z_]+)`")
_SENTENCE_END = re.compile(r"(?<=[a-z0-9`]\.) (?=[A-Z])")


class Flag(click.Option):
    """The flag of a key."""

    def __init__(self, name: str) -> None:
        self._place = tuple(part or MAIN for part in FLAGS[name])
        # each entry of a table has a flag of its own
        self._is_of_table = self._place[0] == CLUSTERS and self._known.key.each is not None
        super().__init__([flag_of(name)], multiple=self._is_of_table)

    @property
    def right(self) -> str:
        """The flag with a right value."""
        return f"{self.opts[0]} {plain(self._known.key.example)}"

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """The typed value, as far as click checks it. Raises BadParameter."""
        if value:
            self._look_up()
        return super().type_cast_value(ctx, value)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The shell's completions."""
        self._look_up()
        return super().shell_complete(ctx, incomplete)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The flag's row in `--help`."""
        self._look_up()
        return super().get_help_record(ctx)

    @property
    def _known(self) -> Known:
        if self._place[0] == CAPTURE:
            from recorder.capture.session import CaptureSettings

            return keys_of(CaptureSettings)[self._place[1:]]
        return _KEYS[self._place]

    def _look_up(self) -> None:
        known = self._known
        kind = known.key.kind
        self.type = click.Choice(kind.choices) if kind.choices else _PATHS.get(kind.word, click.STRING)
        self.metavar = None if kind.choices else ("N=" if self._is_of_table else "") + kind.word
        self.help = _help(known, self._is_of_table)
        if known.default is not None and not known.is_required and not self._is_of_table:
            self.show_default = plain(kind.written(known.default))


def _help(known: Known, is_of_table: bool) -> str:
    """The first sentence of what the key does, and what holds without it."""
    sentence = _SENTENCE_END.split(known.key.text)[0]
    if is_of_table:
        return f"{sentence} Repeatable."
    default = f" Default: {known.key.unset}." if known.key.unset else ""
    return _KEY_NAME.sub(lambda key: flag_at((CLUSTERS, MAIN, key[1])) or key[1], sentence + default)


def flags() -> list[click.Parameter]:
    """All of them."""
    return [Flag(name) for name in FLAGS]
