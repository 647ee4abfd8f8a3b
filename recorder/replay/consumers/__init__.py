"""Consumers: the offsets that they ask for, and the records that they get.

offsets  differences  pending  readers      recorded offsets in the target's logs, positions of consumers
fetched_records  shared_records             add records of fetches, and of share groups, to the streams
records  matching  digests                  streams of records, and how both sides' are matched
"""
