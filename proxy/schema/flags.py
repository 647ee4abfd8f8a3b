"""The flags of `kafka-wiretap proxy`, and the key that each one sets. Their help comes from the keys (`keys`)."""

from __future__ import annotations

from proxy.schema.toml import plain

# the cluster's name if neither a file nor the environment names one
MAIN = "main"
# the variable of `--engine`, which says what answers questions about captures: no setting, although it begins like one
ENGINE_VARIABLE = "KAFKA_WIRETAP_ENGINE"
CLUSTERS, CAPTURE, LIVE = "clusters", "capture", "live"

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
    "records": (CAPTURE, "records"),
    "topic_records": (CAPTURE, "topics"),
    "hash_key": (CAPTURE, "hash_key"),
    "metrics": ("metrics",),
    "page": (LIVE, "page"),
    "drain": ("drain",),
    "workers": ("workers",),
    "log_level": ("log", "level"),
}

# flags that set one entry of a table each time: --node 1=HOST:PORT -> what stands before the "="
ENTRY_FLAGS = {"node": "N", "topic_records": "PATTERN"}


def flag_of(name: str) -> str:
    """A flag as a user types it. `name`: as click knows it."""
    return "--" + name.replace("_", "-")


def sets_entry(flag: str) -> bool:
    """True for a flag of ENTRY_FLAGS, as a user types it."""
    return flag in map(flag_of, ENTRY_FLAGS)


def as_flag(flag: str, key: str, value: object) -> str:
    """A flag with a value, as a user types it. `key`: for a flag of ENTRY_FLAGS, the name of the entry that it sets."""
    entry = f"{key}=" if sets_entry(flag) else ""
    return f"{flag} {entry}{plain(value)}"


_FLAG_AT = {place: flag_of(name) for name, place in FLAGS.items()}


def flag_at(place: tuple[str, ...]) -> str | None:
    """The flag that sets a key, or an entry of a table by node id; None if there is no such flag."""
    return _FLAG_AT.get((CLUSTERS, None, *place[2:3]) if place[0] == CLUSTERS else place)
