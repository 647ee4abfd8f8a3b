"""Pure functions that change responses on their way. `net/connection/rewriting.py` calls them.

addresses      the table of responses that carry addresses; rewrites a response that is held whole
equal_length   rewrites the tail of a response that streams, at equal length
api_versions   reduces the versions that ApiVersions responses offer to clients
"""
