"""What a proxy keeps over restarts: nodes, where their brokers were, and ports that no rule gives.

file     the state file's format, read and written
writer   the thread that writes the newest state
claims   which file a cluster has while the proxy runs: one that no other proxy writes
"""
