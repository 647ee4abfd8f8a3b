"""The report's sections: exchanges, connections and bodies, reduced by Spark to what a page can hold.

    bins.py       the bins of the report's timeline; groups of rows as series of values
    traffic.py    coverage, latency, errors, traffic by API
    peers.py      clients, connections, events
    cluster.py    topics, partitions
    delivery.py   from producer to consumer
    metadata.py   changes of leaders, replicas and nodes

Each function asks Spark at once, and gets back no more rows than its section's bounds (`summary.bounds`) allow.
"""
