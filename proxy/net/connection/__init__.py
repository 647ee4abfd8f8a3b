"""One client's connection.

relay             passes the connection's bytes in both directions, from the first to the last
ending            how the connection ends: a table of states and events
in_flight         chunks that are still to be sent, and responses that are still owed
exchange_counter  counts the connection's chunks and exchanges for the metrics
recording         tells the recorder of the connection, and waits for a recorder that is full
rewriting         rewrites the responses that name brokers
"""
