"""Node <-> listener <-> advertised address: the rules, checked in constructors. Opens no port; `net/brokers` does.

nodes   shared terms, and `NodeMap`, the protocol of every mapping
ports   a port for each node
names   a host name for each node, made of its id: either several proxies share the nodes, or one TLS port stands for
        all nodes, and the server name in the handshake tells which
alone   no nodes at all: a broker of Kafka 0.7
"""
