"""A certificate's subject as Kafka names the principal: `CN=orders,OU=Shop,O=Example,C=DE`.

The form is RFC 2253 as Java's `X500Principal.getName` writes it: the last RDN first, keywords for the types that the
RFC names, any other type as an OID with the value's bytes in hexadecimal.
"""

from __future__ import annotations

from proxy.tls.der import SUBJECT, elements, fields

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# tags of texts: UTF8, printable, T61, IA5, general and BMP strings. All are read as UTF-8, as in Java
_TEXTS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
_ESCAPES = str.maketrans({"\0": "\\00"} | {character: f"\\{character}" for character in ',=+<>#;"\\'})


def subject(certificate: bytes) -> str | None:
    """Returns the subject of a certificate in DER; None if it can't be read."""
    try:
        rdns = [rdn for _, rdn in elements(fields(certificate)[SUBJECT])]
        return ",".join("+".join(_attribute_text(pair) for _, pair in elements(rdn)) for rdn in reversed(rdns))
    except (IndexError, ValueError, StopIteration):
        return None


def _attribute_text(pair: bytes) -> str:
    (_, oid), (tag, value) = elements(pair)
    name = _oid_text(oid)
    keyword = _KEYWORDS.get(name)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or name}=#{(bytes([tag]) + _der_length(len(value)) + value).hex()}"
    return f"{keyword}={_escaped(value.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    plain = text.translate(_ESCAPES)
    inner = plain.strip(" \r")
    before = len(plain) - len(plain.lstrip(" \r"))
    edges = [plain[:before], plain[before + len(inner) :]]
    lead, trail = ("".join(f"\\{blank}" for blank in edge) for edge in edges)
    return lead + inner + trail


def _oid_text(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _der_length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits
