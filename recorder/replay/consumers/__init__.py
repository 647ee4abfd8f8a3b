"""What consumers read: the offsets that they ask for, and the records that they get.

offsets  differences  pending  readers      recorded offsets in the target's logs, consumers' places
fetched  shared                             hand records to the streams: of fetches, of share groups
records  matching  digests                  the streams, and how both sides are matched
"""
