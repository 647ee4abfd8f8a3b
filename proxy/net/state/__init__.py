"""The state that a proxy keeps over restarts: nodes, their brokers' addresses, and ports that the kernel picked.

file     the state file's format, read and written
writer   the thread that writes the newest state
claims   claims a state file for each cluster, so that no other proxy uses it
"""
