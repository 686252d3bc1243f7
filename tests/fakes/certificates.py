"""Certificates made on the spot: an authority and what it issues, good and bad."""

import datetime
import ipaddress
import os
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)
SERVER_NAMES = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]


@dataclass(frozen=True)
class KeyPair:
    """Paths of PEM files, as the daemons want them."""

    cert_file: str
    key_file: str


class CertificateAuthority:
    """Writes everything it issues into `directory`; `ca_file` is its own certificate."""

    def __init__(self, directory: str, name: str = "test authority") -> None:
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        self._key = generate_private_key(SECP256R1())
        self._name = _name(name)
        builder = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.ca_file = os.path.join(directory, "ca.pem")
        _write(self.ca_file, self._certificate.public_bytes(Encoding.PEM))

    def issue_server(self, file_name: str = "server", names: list[x509.GeneralName] | None = None) -> KeyPair:
        return self._issue(
            file_name, "server", usage=ExtendedKeyUsageOID.SERVER_AUTH, names=names or SERVER_NAMES
        )

    def issue_client(self, common_name: str = "client") -> KeyPair:
        return self._issue(f"client-{common_name}", common_name, usage=ExtendedKeyUsageOID.CLIENT_AUTH)

    def issue_expired_client(self) -> KeyPair:
        return self._issue("expired", "expired", usage=ExtendedKeyUsageOID.CLIENT_AUTH, age=3 * DAY)

    def issue_client_for_servers_only(self) -> KeyPair:
        return self._issue("no-client", "no-client", usage=ExtendedKeyUsageOID.SERVER_AUTH)

    def _issue(
        self,
        file_name: str,
        common_name: str,
        *,
        usage: x509.ObjectIdentifier,
        names: list[x509.GeneralName] | None = None,
        age: datetime.timedelta = datetime.timedelta(0),
    ) -> KeyPair:
        key = generate_private_key(SECP256R1())
        builder = _builder(_name(common_name), self._name, key, age).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        pair = KeyPair(*(os.path.join(self._directory, f"{file_name}{end}") for end in (".pem", ".key")))
        _write(pair.cert_file, builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        _write(pair.key_file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return pair


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    age: datetime.timedelta = datetime.timedelta(0),
) -> x509.CertificateBuilder:
    start = datetime.datetime.now(datetime.UTC) - DAY - age
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + 2 * DAY)
    )


def _write(path: str, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
