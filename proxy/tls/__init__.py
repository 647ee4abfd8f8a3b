"""TLS without sockets: OpenSSL's contexts, and subjects of certificates. The settings: proxy/config/tls.py.

contexts.py     settings -> OpenSSL's contexts, made anew when their files change
subject.py      a certificate -> its subject as Kafka prints it

The bytes are passed in proxy/net/sockets/tls.py.
"""
