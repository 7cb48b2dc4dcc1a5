"""Mutated inputs for all that reads remote bytes: a fixed few thousand each time, and each that ever failed.

A target takes bytes and returns; it may raise what it documents, and nothing else, in a time that grows with the bytes
alone.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.support.fuzz_targets import FIXTURES, LONGEST, Target, targets

INPUTS = 250
TARGETS = targets()
EXCERPT = 400
"""Mean bytes of a seed that an input begins with, as a rule: what is short is read often."""
SECONDS, SECONDS_PER_BYTE = 0.25, 40e-6
"""CPU seconds that any input may take, and more for each of its bytes."""
DICTIONARY = (
    b"9" * 5000, b"-1", b"0", b"1e309", b"NaN", b"18446744073709551616", b"\x00", b"\xff\xfe", b"\x1b]0;x\x07", b"\r\n",
    b"\xc2\x85", b"\xe2\x80\xae", b"[" * 3000, b"{\"a\":" * 500, b"\"", b"\\", b"\\ud800", b"%s%n", b"../", b" " * 3000,
    b"." * 3000, b"a." * 1500, b"Traceback (most recent call last):\n", b"[rank999999999]: ", b"\xd9\xa3", b"\xc2\xb2",
    b"null", b"true", b"\x80\x02", b"h\x00", b"}", b"]", b"(", b")", b"e.", b"0x" + b"f" * 400, b"9999-99-99 99:99:99",
    b"4294967296", b"=", b"'", b"*", b"?", b"!", b",", b":", b"[1-9999999]", b"\t", b"|1|", b"%h%%",
    b"\xff\xff\xff\xff",
)  # fmt: skip


def beginning(rng: random.Random, target: Target) -> bytes:
    """A seed, or as a rule a run of it that begins with a line and has some hundred bytes."""
    seed = rng.choice(target.seeds)[:LONGEST]
    if target.whole or len(seed) <= EXCERPT or not rng.randrange(8):
        return seed
    start = seed.rfind(b"\n", 0, rng.randrange(len(seed))) + 1
    return seed[start : start + 40 + int(rng.expovariate(1 / EXCERPT))]


def mutated(rng: random.Random, target: Target) -> bytes:
    """An input that is like one of the seeds, or a part of one, or like two of them: runs of it are replaced."""
    data = bytearray(beginning(rng, target))
    for _ in range(1 + int(rng.expovariate(0.5))):
        at = rng.randint(0, len(data))
        end = min(len(data), at + int(rng.expovariate(0.1)))
        new = (
            b"",
            rng.choice(DICTIONARY),
            rng.randbytes(1 + end - at),
            bytes(data[at:end]) * rng.randint(1, 200),
            beginning(rng, target),
        )
        data[at : rng.choice((at, end))] = rng.choice(new)
    return bytes(data[:LONGEST])


def survived(target: Target, data: bytes) -> bool:
    """Whether an input is read in time, at the first or at the second try."""
    for _ in range(2):
        began = time.thread_time()
        target.read(data)
        if time.thread_time() - began < SECONDS + SECONDS_PER_BYTE * len(data):
            return True
    return False


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs_are_survived(name: str) -> None:
    rng = random.Random(name)
    for _ in range(INPUTS):
        data = mutated(rng, TARGETS[name])
        try:
            assert survived(TARGETS[name], data)
        except Exception as error:
            error.add_note(f"to be kept in {FIXTURES}/fuzz/{name}: {data!r}")
            raise


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("fuzz/*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_once_failed_is_survived(path: Path) -> None:
    assert survived(TARGETS[path.parent.name], path.read_bytes())
