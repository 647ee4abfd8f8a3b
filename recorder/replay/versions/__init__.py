"""Requests and answers in other versions, and record batches in other formats.

choosing          the version that is sent, and the values of requests and answers on the way there and back
recode            changes fields, by the catalog
crossings  answer_crossings      changes between versions that concern more than single fields
batches           changes producers, timestamps and formats of records
"""
