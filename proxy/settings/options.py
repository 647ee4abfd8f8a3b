"""The flags of `kafka-wiretap proxy` as click's options. A flag's help, default and completion come from its key.

A key is looked up when its flag is used or shown, so a proxy that doesn't record never imports the recorder's keys.
"""

from __future__ import annotations

import re
from typing import Any

import click
from click.shell_completion import CompletionItem

from proxy.config import ClusterSettings, LiveSettings, LogSettings, ProxySettings
from proxy.schema.flags import CAPTURE, CLUSTERS, ENTRY_FLAGS, FLAGS, LIVE, MAIN, flag_at, flag_of
from proxy.schema.keys import KeyedField, keys_of
from proxy.schema.toml import plain

# click's types for the kinds that are paths, by metavar
_PATHS = {"FILE": click.Path(dir_okay=False), "FOLDER": click.Path(file_okay=False)}
# key path -> field, for all keys but those of the capture, which are imported when needed
_FIELDS = {
    (*place, *below): field
    for place, settings in (
        ((CLUSTERS, MAIN), ClusterSettings),
        (("log",), LogSettings),
        ((LIVE,), LiveSettings),
        ((), ProxySettings),
    )
    for below, field in keys_of(settings).items()
}
_KEY_NAME = re.compile(r"`([a-z_]+)`")
_SENTENCE_END = re.compile(r"(?<=[a-z0-9`]\.) (?=[A-Z])")


class Flag(click.Option):
    """The flag that sets a key. For a key with entries (`nodes.N`), each use of the flag sets one entry."""

    def __init__(self, name: str) -> None:
        self._place = tuple(part or MAIN for part in FLAGS[name])
        # what stands before the value: the entry's name and "="
        self._entry = f"{ENTRY_FLAGS[name]}=" if name in ENTRY_FLAGS else ""
        super().__init__([flag_of(name)], multiple=bool(self._entry))

    @property
    def example(self) -> str:
        """The flag with a valid value, as a user types it."""
        return f"{self.opts[0]} {plain(self._field.key.example)}"

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """The value. Raises BadParameter if it is none of the choices, or no path of the right type."""
        if value:
            self._fill_from_key()
        return super().type_cast_value(ctx, value)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The shell's completions."""
        self._fill_from_key()
        return super().shell_complete(ctx, incomplete)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The flag's row in `--help`."""
        self._fill_from_key()
        return super().get_help_record(ctx)

    @property
    def _field(self) -> KeyedField:
        if self._place[0] == CAPTURE:
            from recorder.capture.session import CaptureSettings

            return keys_of(CaptureSettings)[self._place[1:]]
        return _FIELDS[self._place]

    def _fill_from_key(self) -> None:
        field = self._field
        kind = field.key.kind
        is_choice = bool(kind.choices) and not self._entry
        self.type = click.Choice(kind.choices) if is_choice else _PATHS.get(kind.metavar, click.STRING)
        self.metavar = None if is_choice else self._entry + ("|".join(kind.choices) or kind.metavar)
        self.help = _help(field, sets_entry=bool(self._entry))
        if field.default is not None and not field.is_required and not self._entry:
            self.show_default = plain(kind.written(field.default))


def _help(field: KeyedField, *, sets_entry: bool) -> str:
    """The first sentence of the key's description, and its default. Names of keys that have flags become flags."""
    sentence = _SENTENCE_END.split(field.key.text)[0]
    if sets_entry:
        return f"{sentence} Repeatable."
    default = f" Default: {field.key.unset}." if field.key.unset else ""
    return _KEY_NAME.sub(lambda key: flag_at((CLUSTERS, MAIN, key[1])) or key[1], sentence + default)


def flags() -> list[click.Parameter]:
    """All flags of `kafka-wiretap proxy`."""
    return [Flag(name) for name in FLAGS]
