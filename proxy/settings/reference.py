"""Makes docs/settings.md from the keys of all settings: `kafka-wiretap config reference > docs/settings.md`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from proxy.config import ClusterSettings, LiveSettings, LogSettings, ProxySettings
from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.schema.faults import KeyPath
from proxy.schema.flags import CAPTURE, CLUSTERS, FLAGS, MAIN, flag_of
from proxy.schema.keys import KeyedField, keys_of
from proxy.schema.kinds import SECONDS, SIZE
from proxy.schema.toml import dotted, toml
from proxy.settings.sources import variable_of

HEAD = f"""\
# Settings

`kafka-wiretap config reference` writes this page from the descriptions in the code; don't edit it.

`kafka-wiretap proxy --config wiretap.toml` reads a TOML file ([an example](../examples/wiretap.toml)). A flag wins over
the environment, the environment over the file, the file over the default.

- **Check a file.** `kafka-wiretap config check FILE` prints a line for each error, or else warnings and notes. It exits
  with 0, or with 2 after an error. `kafka-wiretap config show FILE` prints the settings in effect and their sources;
  `--toml` prints a settings file. Both commands read the environment, too. `kafka-wiretap check --config FILE` examines
  the brokers as a proxy with these settings would meet them ([details](proxy/check.md)).
- **Explain a key.** `kafka-wiretap config explain timeouts.idle` prints what is said of it here. Flags and variables
  will do, too.
- **Use the environment.** A key's variable begins with `KAFKA_WIRETAP_`. The names of its tables and the key follow in
  capitals, joined by two underscores (a hyphen becomes `_`):
  `KAFKA_WIRETAP_CLUSTERS__MAIN__UPSTREAM=broker-1:9092,broker-2:9092`. `KAFKA_WIRETAP_CONFIG` is the file's path.
  A list has commas; elements with commas of their own stand in a list of JSON or TOML:
  `KAFKA_WIRETAP_CAPTURE__ONLY__PRINCIPALS='["CN=orders,OU=dev,O=acme"]'`.
  Variables that Kubernetes makes for a service called kafka-wiretap are ignored.
- **Use flags.** If there is one cluster, flags set its keys, too. It is called `main` if neither the file nor the
  environment names it. The keys of several clusters can only be set in the file and the environment.
- **Name the file.** It may be a symbolic link, and at a start also a pipe: `--config /dev/stdin`,
  `--config <(vault read ...)`.
- **Change settings while the proxy runs.** SIGHUP makes the proxy read file and environment again. These changes take
  effect at once: `log`, `drain`, `timeouts.age`, entries added to `nodes` and `advertised`, the keys of `tls` and
  `tls.upstream` (for new connections), what is recorded (`capture.only`, `bodies`, `records`, `topics`, `share`,
  `shares`, `seed`), and how long it is kept (`capture.keep`). Any other change waits for the next start, and the log
  says so. After an error, the log says what is wrong, and no setting changes
  ([details](proxy/reload.md)).
- **Serve several clusters.** Several `[clusters.NAME]` share one process, admin page and capture. Their ports must not
  overlap: those of `listen` and `nodes`, and the whole ranges of `node_ports` and `node_count`, whether or not a node
  has the port.

A duration is {SECONDS.name}. A size is {SIZE.name}.
"""

# heading, key path of the section, its dataclass
SECTIONS: tuple[tuple[str, KeyPath, type], ...] = (
    ("At the top", (), ProxySettings),
    ("[log]", ("log",), LogSettings),
    ("[live]", ("live",), LiveSettings),
    ("[clusters.NAME]", (CLUSTERS, MAIN), ClusterSettings),
    ("[clusters.NAME.tls]", (CLUSTERS, MAIN, "tls"), ListenerTls),
    ("[clusters.NAME.tls.upstream]", (CLUSTERS, MAIN, "tls", "upstream"), UpstreamTls),
)
# heading -> the line above the section's table
INTRODUCTIONS = {
    "[live]": "A process beside the proxy reads the traffic ([what it costs](live.md)). `topics`, `clients`, `groups`, "
    "`token_file`, `page` and `otlp` start it; the other keys say how.\n",
    "[clusters.NAME.tls]": "Without it clients speak plaintext.\n",
    "[clusters.NAME.tls.upstream]": "Without it the proxy speaks plaintext to brokers.\n",
    "[capture]": "Without it nothing is recorded.\n",
}
# the kinds that most keys have -> their names in the tables; what they are stands once, above
KINDS = {SECONDS.name: "a duration", SIZE.name: "a size"}
COLUMNS = "| key | value | default | what it does | flag |\n|---|---|---|---|---|"


class DescribedKey(NamedTuple):
    """A key of the settings. `heading`: of its section; `section`: the section's path, with MAIN for any cluster."""

    heading: str
    section: KeyPath
    field: KeyedField

    @property
    def short(self) -> str:
        """The key below its section. An entry of a table by number is `nodes.N`."""
        return dotted(self._below)

    @property
    def path(self) -> KeyPath:
        """The whole path."""
        return (*self.section, *self._below)

    @property
    def default(self) -> str:
        """The value without the key, as Markdown."""
        if self.field.is_required:
            return "required"
        if self.field.key.unset:
            return self.field.key.unset
        return f"`{toml(self.field.key.kind.written(self.field.default))}`"

    @property
    def flag(self) -> str:
        """The flag that sets the key; "" if there is none."""
        place = (*self.section, *self.field.key.place)
        named = (name for name, path in FLAGS.items() if tuple(part or MAIN for part in path) == place)
        return next((flag_of(name) for name in named), "")

    @property
    def variable(self) -> str:
        """The environment variable that sets the key."""
        return variable_of(self.path)

    @property
    def _below(self) -> KeyPath:
        key = self.field.key
        if key.name_kind is None:
            return key.place
        return key.entry_at("N" if key.entry[0].isdigit() else key.entry[0])


def described_keys() -> Iterator[DescribedKey]:
    """All keys, section by section."""
    from recorder.capture.session import CaptureSettings

    for heading, section, settings in (*SECTIONS, (f"[{CAPTURE}]", (CAPTURE,), CaptureSettings)):
        for field in keys_of(settings).values():
            yield DescribedKey(heading, section, field)


def reference() -> str:
    """The text of docs/settings.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    for heading, keys in groupby(described_keys(), key=lambda key: key.heading):
        yield f"## {heading}"
        if heading in INTRODUCTIONS:
            yield INTRODUCTIONS[heading]
        yield COLUMNS
        yield from map(_row, keys)
        yield ""
    yield f"The keys' variables: `{variable_of(('drain',))}`, `{variable_of(('log', 'level'))}`,"
    yield f"`{variable_of((CLUSTERS, MAIN, 'limits', 'hold'))}`, `{variable_of((CAPTURE, 'when_full'))}`, and so on."


def _row(described: DescribedKey) -> str:
    key = described.field.key
    flag = f"`{described.flag}`" if described.flag else ""
    example = f"`{toml(key.example)}`"
    # values to choose from, and a default that is written in the same way, are examples enough
    is_shown = bool(key.kind.choices) or example == described.default
    text = key.text if is_shown else f"{key.text} For example {example}."
    kind = KINDS.get(key.kind.name, key.kind.name)
    return f"| `{described.short}` | {kind} | {described.default} | {text} | {flag} |"
