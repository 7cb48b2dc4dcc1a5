"""Marks around a command's output: found in any pieces, never taken for what they are not, never missed."""

from __future__ import annotations

import subprocess
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.via.framed import Framed
from collectors.node.processes.commands import MARK


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


def test_what_it_starts_is_marked_as_ours() -> None:
    out = bytearray()
    framed = Framed(["env"], out.extend)
    framed.feed(said_by(framed))
    assert f"{MARK}=1" in out.decode().splitlines()


@given(st.binary(max_size=300), st.integers(0, 60), st.lists(st.integers(0, 400), max_size=6))
def test_without_the_last_mark_it_is_not_over(output: bytes, kept: int, cuts: list[int]) -> None:
    out = bytearray()
    framed = Framed(["x"], out.extend)
    for piece in in_pieces(framed._begin + output + (framed._end + b"0\n")[: min(kept, 36)], cuts):
        framed.feed(piece)
    assert framed.state == "running"
    assert framed.status is None
    assert output.startswith(bytes(out))


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


def test_output_that_passes_a_terminal_is_told() -> None:
    framed = Framed(["echo", "x"], print)
    framed.feed(b"motd\r\n" + framed._begin.replace(b"\n", b"\r\n"))
    assert framed.state == "terminal"
    framed = Framed(["echo", "x"], lambda _data: None)
    framed.feed(b"motd\r\n" + framed._begin + b"\r\n")
    assert framed.state == "running", "what the command says may hold what it likes"


@pytest.mark.parametrize("said", [b"none", b"9" * 5000], ids=["a word", "5,000 digits"])
def test_a_mark_with_no_number_is_output(said: bytes) -> None:
    out = bytearray()
    framed = Framed(["x"], out.extend)
    framed.feed(framed._begin + framed._end + said + b"\nmore")
    assert bytes(out) == framed._end + said + b"\nmore"
    assert framed.state == "running"


def test_a_greeting_without_end_is_bounded() -> None:
    framed = Framed(["x"], print)
    for _ in range(100):
        framed.feed(b"x" * 65536)
    assert len(framed.noise) == len(framed._held) == 4096
