from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from proxy.tls.validity import chain_end

NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")])


def certificate(end: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        x509.CertificateBuilder(NAME, NAME)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(datetime(1960, 1, 1, tzinfo=UTC))
        .not_valid_after(end)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM)


# DER has two digits of the year up to 2049, and four from then on
@pytest.mark.parametrize("year", [1960, 1999, 2027, 2049, 2050, 9999])
def test_a_certificates_end_is_read(year: int, tmp_path: Path) -> None:
    end, file = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC), tmp_path / "proxy.pem"
    file.write_bytes(certificate(end))
    assert chain_end(file) == end.timestamp()


def test_of_a_chain_the_first_to_end_counts(tmp_path: Path) -> None:
    ends = [datetime(year, 1, 1, tzinfo=UTC) for year in (2030, 2028, 2031)]
    file = tmp_path / "proxy.pem"
    file.write_bytes(b"a comment\n" + b"".join(map(certificate, ends)))
    assert chain_end(file) == ends[1].timestamp()


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\0", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
    ids=["empty", "bytes", "no certificate"],
)
def test_a_file_without_a_certificate_has_no_end(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "proxy.pem"
    file.write_bytes(content)
    assert chain_end(file) is None


def test_a_file_that_is_missing_has_no_end(tmp_path: Path) -> None:
    assert chain_end(tmp_path / "missing.pem") is None
