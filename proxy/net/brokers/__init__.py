"""The cluster behind the proxy: its nodes, and the brokers that are dialled.

nodes           a listener for each node, opened before it is advertised
upstreams       the brokers: dialled for clients, and queried for the cluster's nodes
bootstrap       which bootstrap server is tried first
discovery       the proxy's own request for the nodes: ApiVersions, then Metadata
own_listeners   the proxy's own addresses and names, which it must not dial
expiring_set    a set whose members expire
"""
