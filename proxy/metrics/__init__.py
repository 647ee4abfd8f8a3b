"""Exchanges become numbers here, and numbers become pages.

table.py      every metric's name, type, labels and help
traffic.py    what the event loop counts: plain numbers per (api, version)
runs.py       exchanges that are counted together
errors.py     the errors that responses name, and arriving.py: those of responses that come in pieces
collector.py  the numbers handed to prometheus-client when scraped
admin.py      /metrics, /livez and /readyz, served from a thread
"""
