from __future__ import annotations

import pytest

from kubewright.local.node.hpack import HeaderDecoder, HeaderError, encode_headers


def test_blocks_of_a_connection_build_upon_each_other() -> None:
    """RFC 7541, C.4: requests with coded texts."""
    decoder = HeaderDecoder()
    blocks = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ]
    decoded = [decoder.decode(bytes.fromhex(block)) for block in blocks]
    first = [(":method", "GET"), (":scheme", "http"), (":path", "/")]
    host = (":authority", "www.example.com")
    assert decoded[0] == [*first, host]
    assert decoded[1] == [*first, host, ("cache-control", "no-cache")]
    second = [(":method", "GET"), (":scheme", "https"), (":path", "/index.html")]
    assert decoded[2] == [*second, host, ("custom-key", "custom-value")]


def test_old_headers_make_room_for_new_ones() -> None:
    """RFC 7541, C.6: responses, with a table of 256 bytes."""
    decoder = HeaderDecoder()
    resize = bytes([0x3F, 0xE1, 0x01])
    first = (
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad1718"
        "63c78f0b97c8e9ae82ae43d3"
    )
    second = "4883640effc1c0bf"
    assert dict(decoder.decode(resize + bytes.fromhex(first)))[":status"] == "302"
    assert decoder.decode(bytes.fromhex(second)) == [
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ]


@pytest.mark.parametrize("block", [b"\x80", b"\xff", b"\x00\x05ab", b"\x7e"])
def test_malformed_block_is_refused(block: bytes) -> None:
    with pytest.raises(HeaderError):
        HeaderDecoder().decode(block)


def test_what_is_encoded_is_decoded() -> None:
    headers = [(":path", "/x"), ("long", "y" * 500)]
    assert HeaderDecoder().decode(encode_headers(headers)) == headers
