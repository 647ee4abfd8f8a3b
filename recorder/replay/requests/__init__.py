"""Recorded requests in the target's terms: which are sent, with which names, where to, in which order, how often.

apis  deletes  acls          what is sent, as tables of keys; what may be deleted
order  retries               what a request waits for; which answers are asked again
fields                       which fields quote, tell or repeat what a cluster assigns
translate_names              names and ids; `answers`, `blobs`, `patterns`: those in cursors, blobs, texts
routing                      parts for leaders, coordinators, nodes; `layout`, `nodes`, and `joining` of the answers
"""
