"""Makes CAs and certificates for a test, as PEM files."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

HOST_NAMES = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Pem:
    """A certificate with its key, in one file."""

    path: Path
    der: bytes


class Authority:
    """A CA with a folder for the certificates that it signs. `path`: its own certificate."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA(organization_name=name)
        self._folder = folder
        self.path = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(self.path)

    def signs(self, file: str, *hosts: str, **subject: Any) -> Pem:
        """`subject`: parts of it, as trustme calls them (common_name, organization_name, organization_unit_name)."""
        made = self._ca.issue_cert(*(hosts or HOST_NAMES), **subject)
        path = self._folder / f"{file}.pem"
        # replaces the file at once, as deployments do
        new = path.with_suffix(".new")
        key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
        # Java's brokers and clients read only this form
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        new.write_bytes(pem + b"".join(chain.bytes() for chain in made.cert_chain_pems))
        new.replace(path)
        return Pem(path, ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode()))
