"""Node <-> listener <-> advertised address: who may stand where, every rule checked in a constructor. Opens no port.

nodes   the words, and what every mapping must answer
ports   a port for each node: clients tell nodes apart by it
names   a host name for each node, made of its id: this proxy listens for some and others for the rest, or it has one
        TLS port for all of them and finds the node by the name that a client asks for
alone   no node at all: a broker of Kafka 0.7
"""
