"""The cluster behind the proxy: its nodes, and the brokers that are dialled.

nodes           the node table: a listener for each node, opened before it is advertised
naming          how long no answer has named a node
node_ports      the ports of nodes' listeners, opened and given back
upstreams       dials brokers for clients, and decides when to query them for the cluster's nodes
bootstrap       the order in which bootstrap servers are tried
discovery       the proxy's own query for the nodes: ApiVersions, then Metadata
identity        what a cluster can be known by again, for the recorder
own_listeners   the proxy's own addresses and names, which it must not dial
expiring_set    a set whose members expire
"""
