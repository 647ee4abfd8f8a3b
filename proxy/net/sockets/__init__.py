"""Streams of chunks, and waiting for them. Nothing here knows what the bytes mean.

streams         a TCP connection as a stream of chunks; errors of the socket become `PeerLost`
waits           one task that waits for the sockets of all relays
polling         how that task waits: asleep, or looking again and again where that pays
tls             TLS over a stream
proxy_protocol  the header of the PROXY protocol: bytes and addresses
proxy_header    that header, read from a client's connection
lookups         names of hosts, looked up in threads
race            several attempts, of which the first that succeeds counts ("Happy Eyeballs")
"""
