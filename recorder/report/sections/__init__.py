"""The sections of a capture's report in words and tables, without plots: for HTML and for Markdown.

section.py    a section as a value
every.py      all sections in their order
findings.py   findings with their time, their measure, and the commands that show the evidence
traffic.py    coverage, latency, delivery, errors, traffic
cluster.py    topics, groups, partitions, metadata
peers.py      clients, connections, events, method
changes.py    two captures side by side
"""
