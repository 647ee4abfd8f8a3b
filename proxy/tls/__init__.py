"""TLS without sockets: what may be set, what OpenSSL is told, what a certificate says.

settings.py     the keys of [clusters.NAME.tls] and [clusters.NAME.tls.upstream]
contexts.py     settings -> OpenSSL's contexts, made anew when their files change
subject.py      a certificate -> its subject as Kafka prints it

The bytes are passed in proxy/net/tls.py.
"""
