"""Streams of chunks, and waiting for them. Nothing here knows what the bytes mean.

streams         a TCP connection as a stream of chunks; errors of the socket become `PeerLost`
reactor         one task that waits for the sockets of all relays
polling         how that task waits: asleep, or busy polling where that pays
tls             TLS over a stream
proxy_protocol  the header of the PROXY protocol: bytes and addresses
proxy_header    that header, read from a client's connection
lookups         host names, looked up in threads
race            attempts that overlap; the first success counts ("Happy Eyeballs")
"""
