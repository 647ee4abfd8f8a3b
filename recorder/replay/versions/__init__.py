"""Requests and answers in other versions, and record batches in other formats.

choosing          which version is sent, and what becomes of values on the way there and back
recode            fields, by the catalog
crossings  answer_crossings      boundaries at which a version means more than its fields
batches           records: another producer, another time, another format
"""
