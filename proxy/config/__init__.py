"""The settings of a proxy: values that are right once they exist.

A wrong one is a `BadSetting`, with a fault for each thing that is wrong: the keys, the reason, a right example. What
stands in the annotations is what a user may set, where, and why: `settings/` reads it, and docs/settings.md is made of
it.

log.py       how the log is written
mapping.py   a cluster: where brokers and listeners are
flow.py      a cluster: limits and times
tls.py       a cluster: TLS towards clients, and towards brokers
dialects.py  a cluster: what its dialect leaves out
cluster.py   a cluster: all of it, and what must fit together
places.py    the ports and files that it claims
whole.py     the proxy: its clusters and what they share
"""

from proxy.config.cluster import ClusterSettings, Others, ProxyHeader
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
    "LogSettings",
    "MappingKind",
    "Others",
    "ProxyHeader",
    "ProxySettings",
    "default_state_file",
]
