from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kubewright.local.apiserver.certificates import ensure_certificates

NOW = datetime.now(UTC)


def test_a_second_start_signs_nothing(tmp_path: Path) -> None:
    first = ensure_certificates(tmp_path / "c", ["127.0.0.1"], NOW)
    served = first.path("apiserver.crt").read_bytes()
    again = ensure_certificates(tmp_path / "c", ["127.0.0.1"], NOW)
    assert again.path("apiserver.crt").read_bytes() == served
    assert again.token == first.token


def test_a_new_address_keeps_the_authority(tmp_path: Path) -> None:
    first = ensure_certificates(tmp_path / "c", ["127.0.0.1"], NOW)
    ca, token, served = first.ca, first.token, first.path("apiserver.crt").read_bytes()
    again = ensure_certificates(tmp_path / "c", ["127.0.0.1", "10.0.0.1"], NOW)
    assert (again.ca, again.token) == (ca, token)
    assert again.path("apiserver.crt").read_bytes() != served


def test_certificates_are_renewed_long_before_they_end(tmp_path: Path) -> None:
    first = ensure_certificates(tmp_path / "c", ["127.0.0.1"], NOW)
    served = first.path("apiserver.crt").read_bytes()
    later = ensure_certificates(tmp_path / "c", ["127.0.0.1"], NOW + timedelta(days=2000))
    assert later.path("apiserver.crt").read_bytes() != served


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    certificates = ensure_certificates(tmp_path / "c", ["127.0.0.1"], NOW)
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700
    for name in ("ca.key", "apiserver.key", "sa.key", "token"):
        assert certificates.path(name).stat().st_mode & 0o777 == 0o600


def test_the_serving_certificate_is_valid_for_a_client(tmp_path: Path) -> None:
    certificates = ensure_certificates(tmp_path / "c", ["127.0.0.1"], NOW)
    client = ssl.create_default_context(cadata=certificates.ca.decode())
    server = certificates.tls_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    theirs = server.wrap_bio(outgoing, incoming, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    subject = ours.getpeercert()
    assert subject is not None
    assert ("IP Address", "127.0.0.1") in subject["subjectAltName"]
