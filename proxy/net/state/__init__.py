"""The state that a proxy keeps over restarts: nodes, their brokers' addresses, and ports that the kernel picked.

file     the state file's format, read and written
writer   the thread that writes the newest state
claims   locks that keep other proxies from a cluster's state file
"""
