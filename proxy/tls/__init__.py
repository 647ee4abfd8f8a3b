"""TLS without sockets. The settings are in proxy/config/tls.py, the streams in proxy/net/sockets/tls.py.

contexts.py     settings -> OpenSSL's contexts, made anew when their files change
subject.py      a certificate -> its subject as Kafka prints it
validity.py     a file of certificates -> when the first of them ends
der.py          a certificate's fields
"""
