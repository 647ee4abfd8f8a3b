"""When the certificates of a PEM file end, for the metrics."""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from pathlib import Path

from proxy.tls.der import VALIDITY, elements, fields

_PEM = re.compile(f"{ssl.PEM_HEADER}.*?{ssl.PEM_FOOTER}", re.DOTALL)
# tags of times: UTCTime has two digits of the year, GeneralizedTime has four
_FORMATS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
# two digits from 50 on mean a year of the last century (RFC 5280, section 4.1.2.5.1); Python says so from 69 on
_FIRST_OF_LAST_CENTURY = 2050


def chain_end(path: Path) -> float | None:
    """Returns when the first certificate of a PEM file ends, in seconds since 1970; None if that can't be read."""
    try:
        # a list: in a generator, StopIteration would become another error
        return min([_end(ssl.PEM_cert_to_DER_cert(pem)) for pem in _PEM.findall(path.read_text("ascii", "replace"))])
    except (OSError, ValueError, IndexError, KeyError, StopIteration):
        return None


def _end(certificate: bytes) -> float:
    _, (tag, value) = elements(fields(certificate)[VALIDITY])
    end = datetime.strptime(value.decode("ascii"), _FORMATS[tag]).replace(tzinfo=UTC)
    if len(value) == len("yymmddhhmmssZ") and end.year >= _FIRST_OF_LAST_CENTURY:
        end = end.replace(year=end.year - 100)
    return end.timestamp()
