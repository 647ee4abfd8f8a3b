"""Records by their keyed hashes: keys, values and headers' values replaced, everything else as it was.

    hasher      a key, and the hash of one value
    batches     record batches and message sets -> the same with hashed values, uncompressed
    frames      whole Produce requests, Fetch and ShareFetch responses

Knows the wire alone: no files, no log, no columns. The compactor and `redact` call it, so a value
is hashed in one way everywhere.
"""
