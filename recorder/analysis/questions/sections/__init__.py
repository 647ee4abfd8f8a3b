"""Fills the report's sections: Spark reduces exchanges, connections and bodies to what a page can hold.

    bins.py       the bins of the report's timeline; rows as series of values
    traffic.py    coverage, latency, errors, traffic by API
    peers.py      clients, connections, events
    cluster.py    topics, partitions
    groups.py     consumer groups, their lag and rebalances
    delivery.py   from producer to consumer
    metadata.py   changes of leaders, replicas and nodes

Each function runs its queries at once, and collects no more rows than its section's bounds (`summary.bounds`) allow.
"""
