"""docs/settings.md, made of what stands next to the fields: `kafka-wiretap config reference > docs/settings.md`."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.config import ClusterSettings, LogSettings, ProxySettings
from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.schema.faults import KeyPath
from proxy.schema.flags import CAPTURE, CLUSTERS, FLAGS, flag_of
from proxy.schema.keys import Known, keys_of
from proxy.schema.toml import dotted, toml
from proxy.settings.sources import variable_of

HEAD = """\
# Settings

Made by `kafka-wiretap config reference` of the descriptions in the code; don't edit it.

`kafka-wiretap proxy --config wiretap.toml` reads a TOML file ([an example](../examples/wiretap.toml)). A flag wins over
the environment, the environment over the file, the file over the default.

- A variable's name is `KAFKA_WIRETAP_` and the key's place in capitals, its parts joined by two underscores (a hyphen
  becomes `_`): `KAFKA_WIRETAP_CLUSTERS__MAIN__UPSTREAM=broker-1:9092,broker-2:9092`. `KAFKA_WIRETAP_CONFIG` names the
  file. Variables that Kubernetes makes for a service called kafka-wiretap are passed over.
- Flags that belong to a cluster speak of the only one there is, or of `main` where none has a name. With several, the
  file and the environment name them.
- `kafka-wiretap config check FILE` says everything that is wrong, a line each, and what may be regretted; exit code 0,
  or 2. `kafka-wiretap config show FILE` prints what is in effect, and what each value comes from; `--toml` as a file.
  Both see the environment too.
- The file may be a symbolic link, and for a start also a pipe: `--config /dev/stdin`, `--config <(vault read ...)`.
- SIGHUP has file and environment read again. What cuts no connection changes at once: `log`, `drain`, `nodes` and
  `advertised` that are new, the keys of `tls` and `tls.upstream`, for new connections, and what is recorded
  (`capture.only`, `capture.bodies`); of every other key that has changed, the log says that it waits for the next
  start. If something is wrong, the log says what, and everything stays as it is ([how](proxy.md#settings-read-again)).
- Several `[clusters.NAME]` share one process, admin page and capture. Their ports must not overlap, whatever nodes they
  turn out to have: those of `listen` and `nodes`, and the whole range of `node_ports` and `node_count`.
"""

# heading, where its keys stand
SECTIONS: tuple[tuple[str, KeyPath, type], ...] = (
    ("At the top", (), ProxySettings),
    ("[log]", ("log",), LogSettings),
    ("[clusters.NAME]", (CLUSTERS, "main"), ClusterSettings),
    ("[clusters.NAME.tls]", (CLUSTERS, "main", "tls"), ListenerTls),
    ("[clusters.NAME.tls.upstream]", (CLUSTERS, "main", "tls", "upstream"), UpstreamTls),
)
# said first
FIRST = {
    "[clusters.NAME.tls]": "Clients speak plaintext without it.\n",
    "[clusters.NAME.tls.upstream]": "Brokers are spoken to in plaintext without it.\n",
    "[capture]": "Nothing is recorded without it.\n",
}
ROWS = "| key | value | default | what it does | flag |\n|---|---|---|---|---|"


def reference() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    from recorder.capture.session import CaptureSettings

    yield HEAD
    for heading, place, settings in (*SECTIONS, ("[capture]", (CAPTURE,), CaptureSettings)):
        yield f"## {heading}"
        if heading in FIRST:
            yield FIRST[heading]
        yield ROWS
        for known in keys_of(settings).values():
            yield _row(known, place)
        yield ""
    yield f"Their variables: `{variable_of(('drain',))}`, `{variable_of(('log', 'level'))}`,"
    yield f"`{variable_of((CLUSTERS, 'main', 'limits', 'hold'))}`, `{variable_of((CAPTURE, 'when_full'))}`, and so on."


def _row(known: Known, place: KeyPath) -> str:
    key = known.key
    name = dotted(key.place) + (".N" if key.each is not None else "")
    flag = _flag((*place, *key.place))
    text = f"{key.text} For example `{toml(key.example)}`."
    return f"| `{name}` | {key.kind.name} | {_default(known)} | {text} | {flag} |"


def _default(known: Known) -> str:
    if known.is_required:
        return "must be there"
    if known.key.unset:
        return known.key.unset
    return f"`{toml(known.key.kind.written(known.default))}`"


def _flag(place: KeyPath) -> str:
    named = (name for name, flag in FLAGS.items() if tuple(part or "main" for part in flag) == place)
    return next((f"`{flag_of(name)}`" for name in named), "")
