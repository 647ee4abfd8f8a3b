"""The cluster behind the proxy: its nodes, and the brokers that are dialled.

nodes           a listener for each node, opened before it is advertised
upstreams       the brokers: dialled for clients, asked for the cluster's nodes
bootstrap       which bootstrap server is tried first
discovery       the proxy's own request for the nodes: ApiVersions, then Metadata
own_listeners   what the proxy itself listens on and is called, so as not to dial itself
expiring_set    what was found out lately, and is taken for true for a while
"""
