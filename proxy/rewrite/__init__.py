"""Pure functions: which bytes of a frame change on their way, and into what.

addresses      the table of responses that carry addresses; the splice of a frame that is held whole
equal_length   the same for the tail of a frame that is streamed: its length has already been sent
api_versions   what clients are told that the broker understands
"""
