"""A capture in numbers that fit into a report: what Spark has reduced, as values. Nothing here knows Spark or a page.

    bounds.py       how much a report holds: time bins, rows, marks; the tables that keep to it
    finding.py      a finding, its severity, its evidence; rules that could not be judged
    traffic.py      sections of exchanges: coverage, latency, delivery, errors, APIs
    cluster.py      sections of what the cluster keeps: topics, groups, partitions, metadata
    peers.py        sections of who was there: clients, connections, events; the method
    whole.py        Summary: all of them, to JSON and back

Names say their unit: `_ns`, `_ms`, `_bytes`; times named `…_at_ns`, `from_ns` and `to_ns` count since 1970. None is
what nobody can tell; a section that could not be made says why in `not_judged`. Names of topics, clients and groups
are foreign text, which whoever shows it makes harmless.
"""
