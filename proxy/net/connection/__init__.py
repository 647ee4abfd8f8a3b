"""One client's connection.

relay      its bytes, there and back, from the first to the last
rewriting  a response that names brokers, on its way through
"""
