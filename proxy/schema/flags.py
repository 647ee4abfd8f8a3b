"""The flags of `kafka-wiretap proxy`, and the key that each one sets. Their help comes from the keys (`keys`)."""

from __future__ import annotations

from proxy.schema.toml import plain

# the cluster's name if neither a file nor the environment names one
MAIN = "main"
# the variable of `--engine`, which says what answers questions about captures: no setting, although it begins like one
ENGINE_VARIABLE = "KAFKA_WIRETAP_ENGINE"
CLUSTERS, CAPTURE = "clusters", "capture"

# a flag's name, as click knows it -> its key's path; None stands for the name of the only cluster
FLAGS: dict[str, tuple[str | None, ...]] = {
    "upstream": (CLUSTERS, None, "upstream"),
    "listen": (CLUSTERS, None, "listen"),
    "advertise": (CLUSTERS, None, "advertise"),
    "node_ports": (CLUSTERS, None, "node_ports"),
    "node_count": (CLUSTERS, None, "node_count"),
    "node": (CLUSTERS, None, "nodes"),
    "state": (CLUSTERS, None, "state"),
    "record": (CAPTURE, "folder"),
    "record_queue": (CAPTURE, "queue"),
    "record_spool": (CAPTURE, "spool"),
    "record_when_full": (CAPTURE, "when_full"),
    "metrics": ("metrics",),
    "drain": ("drain",),
    "workers": ("workers",),
    "log_level": ("log", "level"),
}


def flag_of(name: str) -> str:
    """A flag as a user types it. `name`: as click knows it."""
    return "--" + name.replace("_", "-")


def as_flag(flag: str, key: str, value: object) -> str:
    """A flag with a value, as a user types it. `key`: for --node, the node id whose entry it sets."""
    entry = f"{key}=" if flag == flag_of("node") else ""
    return f"{flag} {entry}{plain(value)}"


_FLAG_AT = {place: flag_of(name) for name, place in FLAGS.items()}


def flag_at(place: tuple[str, ...]) -> str | None:
    """The flag that sets a key, or an entry of a table by node id; None if there is no such flag."""
    return _FLAG_AT.get((CLUSTERS, None, *place[2:3]) if place[0] == CLUSTERS else place)
