"""The settings of a proxy, as values that are checked in their constructors.

A constructor raises `BadSetting` with a fault for each wrong setting: the keys, the reason, a right example. The
annotation of a field (`Key`) holds the key in the settings file, the help text and an example: `settings/` reads
settings by them, and docs/settings.md is generated from them.

log.py       the log
live.py      what is read from the traffic beside the proxy
mapping.py   of a cluster: brokers, listeners, advertised addresses
flow.py      of a cluster: limits and times
tls.py       of a cluster: TLS towards clients, and towards brokers
dialects.py  of a cluster: the settings that Kafka 0.7 has no use for
cluster.py   all settings of a cluster, checked together
places.py    the ports and files that clusters claim, and clashes between them
whole.py     all settings of a proxy: its clusters and what they share
"""

from proxy.config.cluster import ClusterSettings, Others, ProxyProtocolVersion
from proxy.config.live import LiveSettings
from proxy.config.log import Format, Level, LogSettings
from proxy.config.mapping import MappingKind
from proxy.config.places import default_state_file
from proxy.config.whole import ProxySettings
from proxy.schema.flags import MAIN

__all__ = [
    "MAIN",
    "ClusterSettings",
    "Format",
    "Level",
    "LiveSettings",
    "LogSettings",
    "MappingKind",
    "Others",
    "ProxyProtocolVersion",
    "ProxySettings",
    "default_state_file",
]
