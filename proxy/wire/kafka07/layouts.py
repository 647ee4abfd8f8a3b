"""The fields of each request and each response of 0.7, for people to read.

The codec does not use these tables; a test writes frames by them and compares. The 4-byte length in front of every
frame is left out.
"""

from typing import NamedTuple

from proxy.wire.kafka07.requests import RequestType


class Field(NamedTuple):
    """One field of a request, a response or a message.

    `type`: "int16" and so on; "string" (UTF-8, behind its length as an int16); "[]" for an array of structs, whose
    fields are `fields`; "[]int64" for an array of integers. `size`: where an array ends. `about`: the value's meaning.
    """

    name: str
    type: str
    about: str = ""
    size: str = ""
    fields: tuple["Field", ...] = ()


COUNT, BYTES, TO_THE_END = "int16 count before it", "int32 bytes before it", "up to its frame's end"
OFFSETS_COUNT, TO_THE_PARTS_END = "int32 count before it", "up to its part's end"

MESSAGE = (
    Field("length", "int32", "of all that follows"),
    Field("magic", "int8", "0 or 1"),
    Field("attributes", "int8", "with magic 1 alone; 0 plain, 1 gzip, 2 snappy: the payload is messages again"),
    Field("checksum", "int32", "CRC-32 of the payload"),
    Field("payload", "bytes", "up to the message's end"),
)
_PLACE = (Field("topic", "string"), Field("partition", "int32"))
_FETCH = (
    *_PLACE,
    Field("offset", "int64", "the byte of the partition's log to begin at"),
    Field("max_size", "int32", "bytes: the last message may be cut"),
)


def _messages(size: str) -> Field:
    return Field("messages", "[]", "", size, MESSAGE)


_PRODUCE = (_PLACE[0], Field("partition", "int32", "-1: any"), _messages(BYTES))
_ERROR = Field("error_code", "int16")
_PART = (Field("length", "int32", "of this part, behind it"), _ERROR, _messages(TO_THE_PARTS_END))

# the fields behind the type (int16)
REQUESTS: dict[RequestType, tuple[Field, ...]] = {
    RequestType.PRODUCE: _PRODUCE,
    RequestType.FETCH: _FETCH,
    RequestType.MULTIFETCH: (Field("fetches", "[]", "", COUNT, _FETCH),),
    RequestType.MULTIPRODUCE: (Field("produces", "[]", "", COUNT, _PRODUCE),),
    RequestType.OFFSETS: (
        *_PLACE,
        Field("time", "int64", "ms since 1970; -1 latest, -2 earliest"),
        Field("max_number", "int32"),
    ),
}
RESPONSES: dict[RequestType, tuple[Field, ...]] = {
    RequestType.FETCH: (_ERROR, _messages(TO_THE_END)),
    RequestType.MULTIFETCH: (_ERROR, Field("parts", "[]", "one for each fetch, in their order", TO_THE_END, _PART)),
    RequestType.OFFSETS: (_ERROR, Field("offsets", "[]int64", "where segments begin, latest first", OFFSETS_COUNT)),
}
