"""Marks around a command's output: found in any pieces, never taken for what they are not, never missed."""

from __future__ import annotations

import subprocess
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.via.framed import Framed


def said_by(framed: Framed, shell: str = "sh") -> bytes:
    return subprocess.run([shell], input=framed.line(), capture_output=True, check=False).stdout


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


@given(
    st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 255), st.lists(st.integers(0, 900), max_size=12)
)
def test_whatever_is_around_them_in_whatever_pieces(before: bytes, output: bytes, status: int, cuts: list[int]) -> None:
    out = bytearray()
    framed = Framed(["x"], out.extend)
    begin, end = framed._begin, framed._end
    for piece in in_pieces(before + begin + output + end + b"%d\nrest" % status, cuts):
        framed.feed(piece)
    assert bytes(out) == output
    assert framed.state == "over"
    assert framed.status == (128 - status if 128 < status < 193 else status)


def test_a_shell_writes_them() -> None:
    for shell in ("sh", "bash"):
        out = bytearray()
        framed = Framed(["sh", "-c", "printf 'a\nb'; exit 7"], out.extend)
        framed.feed(b"motd\r\n" + said_by(framed, shell))
        assert (bytes(out), framed.status, framed.noise) == (b"a\nb", 7, b"motd\r\n")


def test_a_terminal_is_told_and_its_echo_is_no_mark() -> None:
    framed = Framed(["echo", "x"], print)
    framed.feed(framed.line().replace(b"\n", b"\r\n"))
    before = framed.state
    framed.feed(b"\x1eT" + framed._nonce.encode() + b"\r\n")
    assert (before, framed.state) == ("before", "terminal")
