"""Grafana's dashboards, as Python that writes their JSON: `make docs`.

    promql.py       questions to Prometheus, asked of metrics of `proxy.metrics.table`
    panels.py       the kinds of panels, each with what is the same wherever it is used
    board.py        a dashboard's frame: variables, links, rows
    overview.py     is anything wrong, and where
    apis.py         which API is slow, fails, or is large
    nodes.py        which broker is down, slow, or answers with errors
    clients.py      which client and which topic get errors, and which load the cluster
    groups.py       which consumer group is behind, rebalances, or can't commit
    capture.py      is what passes recorded, compacted and shipped
    __main__.py     writes each dashboard beside this file

A metric's name and labels stand in its table alone. Each panel's description says what to look at, and what comes next.
"""
