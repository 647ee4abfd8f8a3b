"""Pure functions: which bytes of a frame change on their way, and into what.

nodes          node <-> listener <-> advertised address: the words, and what every mapping must answer
ports, names   the mappings, every rule checked in the constructor: a port for each node, a name for each node
addresses      the table of responses that carry addresses; the splice of a frame that is held whole
equal_length   the same for the tail of a frame that is streamed: its length has already been sent
api_versions   what clients are told that the broker understands
"""
