"""How much at a time: of connections, of bytes, of quiet.

connections             how many connections are let in: in all, of a cluster, from an address
held_bytes              how many bytes all connections together may hold
recorder_backpressure   where sockets wait until the recorder takes more
idle                    the end of connections over which nothing goes
"""
