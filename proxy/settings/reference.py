"""Makes docs/settings.md from the keys of all settings: `kafka-wiretap config reference > docs/settings.md`."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.config import ClusterSettings, LogSettings, ProxySettings
from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.schema.faults import KeyPath
from proxy.schema.flags import CAPTURE, CLUSTERS, FLAGS, MAIN, flag_of
from proxy.schema.keys import Key, KeyedField, keys_of
from proxy.schema.toml import dotted, toml
from proxy.settings.sources import variable_of

HEAD = """\
# Settings

`kafka-wiretap config reference` writes this page from the descriptions in the code; don't edit it.

`kafka-wiretap proxy --config wiretap.toml` reads a TOML file ([an example](../examples/wiretap.toml)). A flag wins over
the environment, the environment over the file, the file over the default.

- **Check a file.** `kafka-wiretap config check FILE` prints a line for each error, or else warnings and notes. It exits
  with 0, or with 2 after an error. `kafka-wiretap config show FILE` prints the settings in effect and their sources;
  `--toml` prints a settings file. Both commands read the environment, too.
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
  ([details](proxy.md#settings-read-again)).
- **Serve several clusters.** Several `[clusters.NAME]` share one process, admin page and capture. Their ports must not
  overlap: those of `listen` and `nodes`, and the whole ranges of `node_ports` and `node_count`, whether or not a node
  has the port.
"""

# heading, key path of the section, its dataclass
SECTIONS: tuple[tuple[str, KeyPath, type], ...] = (
    ("At the top", (), ProxySettings),
    ("[log]", ("log",), LogSettings),
    ("[clusters.NAME]", (CLUSTERS, MAIN), ClusterSettings),
    ("[clusters.NAME.tls]", (CLUSTERS, MAIN, "tls"), ListenerTls),
    ("[clusters.NAME.tls.upstream]", (CLUSTERS, MAIN, "tls", "upstream"), UpstreamTls),
)
# heading -> the line above the section's table
INTRODUCTIONS = {
    "[clusters.NAME.tls]": "Without it clients speak plaintext.\n",
    "[clusters.NAME.tls.upstream]": "Without it the proxy speaks plaintext to brokers.\n",
    "[capture]": "Without it nothing is recorded.\n",
}
COLUMNS = "| key | value | default | what it does | flag |\n|---|---|---|---|---|"


def reference() -> str:
    """The text of docs/settings.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    from recorder.capture.session import CaptureSettings

    yield HEAD
    for heading, place, settings in (*SECTIONS, ("[capture]", (CAPTURE,), CaptureSettings)):
        yield f"## {heading}"
        if heading in INTRODUCTIONS:
            yield INTRODUCTIONS[heading]
        yield COLUMNS
        for field in keys_of(settings).values():
            yield _row(field, place)
        yield ""
    yield f"The keys' variables: `{variable_of(('drain',))}`, `{variable_of(('log', 'level'))}`,"
    yield f"`{variable_of((CLUSTERS, MAIN, 'limits', 'hold'))}`, `{variable_of((CAPTURE, 'when_full'))}`, and so on."


def _row(field: KeyedField, place: KeyPath) -> str:
    key = field.key
    name = _name(key)
    flag = _flag((*place, *key.place))
    text = f"{key.text} For example `{toml(key.example)}`."
    return f"| `{name}` | {key.kind.name} | {_default(field)} | {text} | {flag} |"


def _name(key: Key) -> str:
    """A key below its section. An entry of a table by number is `nodes.N`."""
    if key.name_kind is None:
        return dotted(key.place)
    return dotted(key.entry_at("N" if key.entry[0].isdigit() else key.entry[0]))


def _default(field: KeyedField) -> str:
    if field.is_required:
        return "required"
    if field.key.unset:
        return field.key.unset
    return f"`{toml(field.key.kind.written(field.default))}`"


def _flag(place: KeyPath) -> str:
    """The flag that sets a key; "" if there is none. In FLAGS, None stands for the cluster's name."""
    named = (name for name, path in FLAGS.items() if tuple(part or MAIN for part in path) == place)
    return next((f"`{flag_of(name)}`" for name in named), "")
