from __future__ import annotations

import pytest

from kubewright.local.node.spdy import (
    DICTIONARY,
    AcceptStream,
    Frame,
    GoAway,
    OpenStream,
    Ping,
    ResetStream,
    SpdyError,
    SpdyFramer,
    StreamData,
)

FRAMES: list[Frame] = [
    OpenStream(1, {"streamtype": "error", "port": "80", "requestid": "0"}, finished=True),
    OpenStream(3, {"streamtype": "data", "port": "80", "requestid": "0"}),
    AcceptStream(1),
    StreamData(3, b"hello"),
    StreamData(3, b"", finished=True),
    Ping(5),
    ResetStream(3, 5),
    GoAway(3),
]


def test_the_dictionary_is_the_published_one() -> None:
    assert len(DICTIONARY) == 1423
    assert DICTIONARY[:11] == b"\0\0\0\x07options"
    assert DICTIONARY.endswith(b",enq=0.")


def test_frames_survive_the_wire_in_pieces_of_any_size() -> None:
    sender = SpdyFramer()
    wire = b"".join(sender.encode(frame) for frame in FRAMES)

    for size in (1, 7, len(wire)):
        receiver = SpdyFramer()
        pieces = [wire[i : i + size] for i in range(0, len(wire), size)]
        assert [frame for piece in pieces for frame in receiver.feed(piece)] == FRAMES


def test_a_data_frame_is_stream_flags_and_length() -> None:
    assert SpdyFramer().encode(StreamData(3, b"ab", finished=True)) == (
        b"\0\0\0\x03" + b"\x01\0\0\x02" + b"ab"
    )


def test_skips_frames_that_it_does_not_need() -> None:
    settings = b"\x80\x03\x00\x04" + b"\0\0\0\x04" + b"\0\0\0\0"

    assert SpdyFramer().feed(settings + SpdyFramer().encode(Ping(1))) == [Ping(1)]


@pytest.mark.parametrize(
    "wire",
    [
        b"\x80\x02\x00\x06" + b"\0\0\0\x04" + b"\0\0\0\x01",
        b"\x80\x03\x00\x06" + b"\0\0\0\x02" + b"\0\0",
        b"\x80\x03\x00\x01" + b"\0\0\0\x0e" + b"\0" * 10 + b"nope",
        b"\0\0\0\x01" + b"\0\xff\xff\xff",
    ],
    ids=["version", "short", "compression", "size"],
)
def test_refuses_what_is_no_spdy(wire: bytes) -> None:
    with pytest.raises(SpdyError):
        SpdyFramer().feed(wire)
