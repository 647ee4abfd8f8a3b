"""Tests of subjects: they are those of Java's X500Principal, as Kafka's principals are."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from proxy.tls.subject import subject
from tests.brokers.jars import java
from tests.sweeps import examples

JAVA = Path(__file__).with_name("Subjects.java")
KEY = ec.generate_private_key(ec.SECP256R1())
NOW = datetime.datetime(2026, 1, 1)
NAMED = {
    "CN": NameOID.COMMON_NAME,
    "C": NameOID.COUNTRY_NAME,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "STREET": NameOID.STREET_ADDRESS,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
    "UID": NameOID.USER_ID,
}
OTHERS = [NameOID.EMAIL_ADDRESS, NameOID.SERIAL_NUMBER, NameOID.TITLE, ObjectIdentifier("2.999.1234567.1")]
TYPES = [_ASN1Type.UTF8String, _ASN1Type.BMPString]


def certificate(*rdns: list[x509.NameAttribute[str]], issuer: str = "the CA") -> bytes:
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        subject_name=x509.Name([x509.RelativeDistinguishedName(rdn) for rdn in rdns]),
        public_key=KEY.public_key(),
        serial_number=7,
        not_valid_before=NOW,
        not_valid_after=NOW + datetime.timedelta(days=1),
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def attribute(oid: ObjectIdentifier, text: str, kind: _ASN1Type | None = None) -> x509.NameAttribute[str]:
    return x509.NameAttribute(oid, text, kind)


SAMPLE = certificate([attribute(NameOID.COMMON_NAME, "me" * 30)])


def attributes() -> st.SearchStrategy[x509.NameAttribute[str]]:
    oids = st.sampled_from([oid for oid in [*NAMED.values(), *OTHERS] if oid != NameOID.COUNTRY_NAME])
    texts = st.text(st.sampled_from(' ,=+<>#;"\\\0\ra1.äß中'), min_size=1, max_size=12)
    return st.builds(attribute, oids, texts, st.sampled_from(TYPES))


NAMES = st.lists(st.lists(attributes(), min_size=1, max_size=2, unique_by=lambda one: one.oid), max_size=4)


def test_the_last_part_comes_first_and_types_have_their_keywords():
    parts = [[attribute(oid, "DE" if name == "C" else f"a {name}")] for name, oid in NAMED.items()]
    expected = ["UID=a UID", "DC=#160461204443", "OU=a OU", "O=a O", "STREET=a STREET", "ST=a ST", "L=a L", "C=DE"]
    found = subject(certificate(*parts))
    assert found is not None
    assert found.replace("DC=a DC", "DC=#160461204443").split(",") == [*expected, "CN=a CN"]


def test_special_characters_of_a_subject_are_escaped():
    made = certificate([attribute(NameOID.COMMON_NAME, ' me, "you" + #1 ')])
    assert subject(made) == 'CN=\\ me\\, \\"you\\" \\+ \\#1\\ '


def test_a_type_without_a_keyword_is_its_number_and_its_bytes():
    made = certificate([attribute(NameOID.EMAIL_ADDRESS, "a@b")], [attribute(NameOID.COMMON_NAME, "me")])
    assert subject(made) == "CN=me,1.2.840.113549.1.9.1=#1603614062"


def test_a_certificate_may_have_an_empty_subject():
    assert subject(certificate()) == ""


@examples(200)
@given(st.data())
def test_a_damaged_certificate_raises_nothing(data):
    whole = SAMPLE
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert subject(cut) is None
    at = data.draw(st.integers(0, len(whole) - 1))
    subject(whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :])


@examples(500)
@given(st.binary(max_size=200))
def test_garbage_raises_nothing(data):
    subject(data)


@pytest.mark.real
def test_subjects_are_javas(tmp_path: Path):
    """The examples are drawn first, so one JVM serves all."""
    drawn = []

    @examples(300, database=None)
    @given(NAMES, st.sampled_from(["the CA", "x" * 64]))
    def draw(rdns, issuer):
        drawn.append(certificate(*rdns, issuer=issuer))

    draw()
    listed = tmp_path / "certificates"
    listed.write_text("\n".join(one.hex() for one in drawn))
    done = subprocess.run([java(), str(JAVA), str(listed)], capture_output=True, text=True, check=True)
    told = [bytes.fromhex(line).decode("utf-8") for line in done.stdout.split("\n")[:-1]]
    assert [subject(one) for one in drawn] == told
