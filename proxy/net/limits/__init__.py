"""Limits on connections, on bytes held in memory, and on idle time.

connections             limits on open connections: in all, of a cluster, from an address
held_bytes              the limit on bytes that all connections together may hold
recorder_backpressure   has sockets wait until the recorder takes more
idle                    ends connections on which nothing moves
"""
