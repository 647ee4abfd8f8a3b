"""The sections as values: a file for each, in the order of `whole.SECTIONS`. Each keeps to its bounds (`bounds.py`).

coverage      what the capture holds, and what it lacks
findings      a finding, its severity, its evidence; rules that could not be judged
latency       by API, by node, and as a heat map
delivery      the time of record batches from producer to first consumer
errors        errors in responses
traffic       exchanges and bytes by API
topics        topics, their clients, the CloudEvents in them
groups        consumer groups, their lag and rebalances
partitions    the load of partitions and nodes; replicas
clients       clients and their software
metadata      changes of leaders, replicas and nodes
connections   connections, and why they ended
events        sessions, gaps, nodes, clocks
method        how the report was made
"""
