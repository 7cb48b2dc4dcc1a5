"""Captures read: every link type that tcpdump writes, whatever the bytes, and what was sent again counted exactly."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats.pcap import SYN, PcapError, Segment, segments, whole_length
from collectors.formats.tcp_flows import Flow, flows
from tests.support.packets import ethernet, frame, ipv4, ipv6, pcap, tcp


def read(data: bytes) -> list[Segment]:
    return list(segments(io.BytesIO(data)))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_a_segment_in_every_byte_order(order: str, nanoseconds: bool) -> None:
    (one,) = read(pcap([frame(1000, 1448, at=1.25)], order=order, nanoseconds=nanoseconds))
    assert one == Segment(1.25, "10.0.0.1", 40000, "10.0.0.2", 29500, 1000, 16, 1448)


@pytest.mark.parametrize(
    ("link", "packet"),
    [
        (1, ethernet(ipv4(tcp(5, 100), 100))),
        (1, ethernet(ipv4(tcp(5, 100), 100), tags=2)),
        (1, ethernet(ipv6(tcp(5, 100), 100))),
        (1, ethernet(ipv6(tcp(5, 100), 100, extension=True))),
        (101, ipv4(tcp(5, 100), 100)),
        (229, ipv6(tcp(5, 100), 100)),
        (113, bytes(14) + b"\x08\x00" + ipv4(tcp(5, 100), 100)),
        (276, b"\x08\x00" + bytes(18) + ipv4(tcp(5, 100), 100)),
    ],
)
def test_every_link_type(link: int, packet: bytes) -> None:
    (one,) = read(pcap([(1.0, packet, len(packet) + 100)], link=link))
    assert (one.seq, one.length, one.target_port) == (5, 100, 29500)


def test_a_segment_too_large_for_its_header_has_the_length_of_the_wire() -> None:
    (one,) = read(pcap([frame(5, 70_000)]))
    assert one.length == 70_000


def test_what_is_no_tcp_is_passed_over() -> None:
    udp = bytearray(ethernet(ipv4(tcp(5, 100), 100)))
    udp[14 + 9] = 17
    fragment = bytearray(ethernet(ipv4(tcp(5, 100), 100)))
    fragment[14 + 6 : 14 + 8] = struct.pack(">H", 100)
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    assert read(pcap([(1.0, bytes(one), 200) for one in (udp, fragment, arp, b"", b"\x45")])) == []


def test_no_capture_at_all() -> None:
    for data in (b"", b"GIF89a", bytes(24), pcap([])[:20]):
        with pytest.raises(PcapError, match="no pcap file"):
            read(data)


@given(st.binary(max_size=300), st.sampled_from(["<", ">"]))
def test_any_bytes_behind_the_header_are_survived(tail: bytes, order: str) -> None:
    data = pcap([frame(1, 10)], order=order) + tail
    assert read(data)[0].length == 10
    assert whole_length(io.BytesIO(data)) <= len(data)


@given(st.binary(max_size=120), st.sampled_from([1, 101, 113, 276, 228, 229, 12, 147]))
def test_any_packet_is_survived(packet: bytes, link: int) -> None:
    for one in read(pcap([(1.0, packet, len(packet))], link=link)):
        assert one.length >= 0


@given(st.integers(0, 400))
def test_a_capture_that_was_cut_anywhere_is_read_up_to_there(cut: int) -> None:
    whole = pcap([frame(seq, 10) for seq in range(0, 50, 10)])
    data = whole[: min(cut, len(whole))]
    if len(data) < 24:
        return
    kept = whole_length(io.BytesIO(data))
    assert len(read(data)) == len(read(data[:kept]))
    assert whole_length(io.BytesIO(whole)) == len(whole)


# --- what was sent again -------------------------------------------------------------------------------------------


def flow(*sent: tuple[int, int], flags: int = 16) -> Flow:
    found = flows(Segment(1.0, "a", 1, "b", 2, seq & 0xFFFFFFFF, flags, length) for seq, length in sent)
    return found["a", 1, "b", 2]


def test_a_segment_that_was_seen_is_sent_again() -> None:
    found = flow((0, 100), (100, 100), (100, 100), (200, 50))
    assert (found.segments, found.size, found.again, found.again_size, found.late) == (4, 350, 1, 100, 0)
    assert found.share == pytest.approx(100 / 350)


def test_a_part_that_was_seen_counts_by_its_bytes() -> None:
    assert flow((0, 100), (50, 100)).again_size == 50


def test_a_hole_that_is_filled_is_late_and_not_sent_again_as_far_as_was_seen() -> None:
    found = flow((0, 100), (200, 100), (100, 100))
    assert (found.again, found.late) == (0, 1)


def test_a_keep_alive_is_no_loss() -> None:
    assert flow((0, 100), (99, 1), (99, 0), (100, 100)).again == 0


def test_a_syn_that_is_repeated_and_one_of_another_connection() -> None:
    def one(seq: int, flags: int, length: int = 0) -> Segment:
        return Segment(1.0, "a", 1, "b", 2, seq, flags, length)

    found = flows([one(7, SYN), one(7, SYN), one(8, 16, 100), one(9000, SYN), one(9001, 16, 100)])["a", 1, "b", 2]
    assert (found.again, found.again_size, found.segments) == (1, 0, 2)


@given(
    start=st.sampled_from([0, 1000, 2**32 - 300, 2**32 - 1]),
    sent=st.lists(st.tuples(st.integers(0, 600), st.integers(2, 90)), max_size=60),
)
def test_every_byte_is_counted_as_a_set_of_bytes_would(start: int, sent: list[tuple[int, int]]) -> None:
    sent = [(300, 2), *sent]
    found = flow(*((start + seq, length) for seq, length in sent))
    seen: set[int] = set()
    again = again_size = 0
    for seq, length in sent:
        both = len(seen & set(range(seq, seq + length)))
        again, again_size = again + bool(both), again_size + both
        seen |= set(range(seq, seq + length))
    assert (found.again, found.again_size, found.size) == (again, again_size, sum(length for _, length in sent))


def test_a_flow_with_ever_more_holes_stays_small() -> None:
    found = flow(*((place * 10, 5) for place in range(5000)))
    assert len(found._starts) <= 512
    assert found.again == 0
