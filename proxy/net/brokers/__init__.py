"""The cluster behind the proxy: its nodes, and the brokers that are dialled.

nodes           the node table: a listener for each node, opened before it is advertised
upstreams       dials brokers for clients, and decides when to query them for the cluster's nodes
bootstrap       the order in which bootstrap servers are tried
discovery       the proxy's own query for the nodes: ApiVersions, then Metadata
identity        what a cluster can be known by again, for the recorder
own_listeners   the proxy's own addresses and names, which it must not dial
expiring_set    a set whose members expire
"""
