"""Node <-> listener <-> advertised address, with every rule checked in a constructor. Opens no port.

nodes   the vocabulary, and the protocol of every mapping
ports   a port for each node: clients tell nodes apart by it
names   a host name for each node, made of its id: several proxies share the nodes, or one proxy has a TLS port for all
        of them and finds the node by the server name in the handshake
alone   no node at all: a broker of Kafka 0.7
"""
