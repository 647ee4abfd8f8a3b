"""Recorded requests in the target's terms: which ones are sent, with which names, to which node, in which order.

apis  deletes  acls          which requests are sent, as tables by API; what may be deleted
refused_parts                what the recorded cluster refused for a while, so that it is not sent
order  retries               which exchanges a request waits for; which answers lead to another try
fields                       the kinds of fields: what is sent, what is compared
translate_names              names and ids; `quoted`, `blobs`, `patterns`: those in cursors, blobs, expressions
routing                      parts for leaders, coordinators, nodes; `layout`, `nodes`, and `joining` of their answers
"""
