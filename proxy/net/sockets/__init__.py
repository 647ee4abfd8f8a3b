"""Streams of chunks, and waiting for them. Nothing here knows what the bytes mean.

streams                a TCP connection as a stream of chunks; errors of the socket become `PeerLost`
reactor                one task that waits for the sockets of all relays
polling                how that task waits: asleep, or busy polling where that pays
tls                    TLS over a stream
proxy_protocol         the PROXY protocol's header <-> values, without sockets
proxy_protocol_reader  reads that header from a client's connection
protocols              what a peer speaks that does not speak Kafka
lookups                looks host names up in threads
race                   runs overlapping attempts until one succeeds ("Happy Eyeballs")
"""
