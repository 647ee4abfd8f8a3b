"""Limits on connections, on bytes held in memory, and on idle time.

connections             limits on open connections: of the proxy, of a cluster, from a client's address
held_bytes              the limit on bytes that all connections together may hold
recorder_backpressure   lets connections wait until the recorder takes more
idle                    ends connections on which nothing moves
"""
