"""One client's connection.

relay      its bytes, there and back, from the first to the last
ending     how it ends: states, events, and what each leads to
in_flight  what is on its way over it, and what is owed
account    what of its traffic has been counted
recording  what the recorder is told of it, and where its chunks wait for the recorder
rewriting  a response that names brokers, on its way through
"""
