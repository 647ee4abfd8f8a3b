"""Pure functions that change frames on their way.

addresses      the table of responses that carry addresses; the splice of a frame that is held whole
equal_length   the splice in the tail of a frame that is streamed, whose length has already been sent
api_versions   the versions that clients are offered
"""
