"""Counts exchanges, and shows the counts on the admin page.

table.py            every metric's name, type, labels and help
reference.py        the table as a page, docs/metrics.md
traffic.py          the counts of a cluster's traffic: plain numbers per (api, version)
nodes.py            the counts of a node
logins.py           follows a connection's login
durations.py        durations by bucket
runs.py             finds exchanges that can be counted together
errors.py           counts the error codes in responses
split_responses.py  reads the error codes of responses that span chunks
sums.py             adds up the counts of several processes
collector.py        hands the counts to prometheus-client at each scrape
admin.py            /metrics, /livez and /readyz, served in threads
"""
