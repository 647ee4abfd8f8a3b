"""Limits on connections, on bytes held in memory, on idle time, and on age.

connections             limits on open connections: of the proxy, of a cluster, from a client's address
held_bytes              the limit on bytes that all connections together may hold
recorder_backpressure   lets connections wait until the recorder takes more
idle                    ends connections on which nothing moves
age                     ends old connections, so that clients connect again
"""
