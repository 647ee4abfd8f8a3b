"""One client's connection.

relay             passes the connection's bytes in both directions; drives all other modules
ending            how the connection ends: a table of states and events
causes            what follows from the cause of the end: the log's line, whether a socket lingers
unsent            chunks that are still to be sent, and responses that are still owed
exchange_counter  counts the connection's chunks and exchanges for the metrics
recording         reports the connection's chunks to the recorder, and waits for a recorder that is full
rewriting         rewrites the responses that name brokers
"""
