"""Mutated inputs for everything that reads what a node, a file or a user's configuration says.

A target takes bytes and returns; it may raise what it documents, and nothing else, in a time that grows with the bytes
alone. The tests run a fixed few thousand inputs, and again each that ever failed.
The targets are in :mod:`tests.support.fuzz_targets`.
"""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

FIXTURES = Path(__file__).parent.parent / "fixtures"
FOUND = FIXTURES / "fuzz"
"""Inputs that once failed: a folder a target."""
LONGEST = 20_000
"""Bytes of an input at most."""
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


class Target(NamedTuple):
    """Something that reads bytes."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    whole: bool = False
    """True for what is nothing once it is cut: archives, recordings."""


class Failure(NamedTuple):
    """An input that a target did not survive."""

    target: str
    data: bytes
    why: str


def fixtures(pattern: str, most: int = LONGEST) -> tuple[bytes, ...]:
    """The beginnings of the fixtures that match a pattern."""
    return tuple(path.read_bytes()[:most] for path in sorted(FIXTURES.glob(pattern)) if path.is_file())


@cache
def _folder() -> str:
    """One for each process, as several collect the same tests at one moment; it goes with the process."""
    folder = tempfile.mkdtemp(prefix="hangtop-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def in_file(data: bytes, name: str) -> Path:
    """A file with these bytes, for what reads files; the next one of the same name replaces it."""
    path = Path(_folder(), name)
    path.write_bytes(data)
    return path


def mutated(rng: random.Random, target: Target) -> bytes:
    """An input that is like one of the seeds, or a part of one, or like two of them."""
    data = bytearray(_beginning(rng, target))
    for _ in range(1 + int(rng.expovariate(0.5))):
        at = rng.randint(0, len(data))
        end = min(len(data), at + int(rng.expovariate(0.1)))
        way = rng.randrange(8)
        if way == 0 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        elif way == 1:
            data[at:at] = rng.choice(DICTIONARY)
        elif way == 2:
            data[at:end] = rng.choice(DICTIONARY)
        elif way == 3:
            del data[at:end]
        elif way == 4:
            data[at:at] = bytes(data[at:end]) * rng.randint(1, 200)
        elif way == 5:
            data[at:] = _beginning(rng, target)
        elif way == 6 and data:
            data[min(at, len(data) - 1)] ^= 1 << rng.randrange(8)
        else:
            data[at:end] = rng.randbytes(end - at)
    return bytes(data[:LONGEST])


def _beginning(rng: random.Random, target: Target) -> bytes:
    """A seed, or as a rule a run of it that begins with a line and has some hundred bytes."""
    seed = rng.choice(target.seeds)[:LONGEST]
    if target.whole or len(seed) <= EXCERPT or not rng.randrange(8):
        return seed
    start = seed.rfind(b"\n", 0, rng.randrange(len(seed))) + 1
    return seed[start : start + 40 + int(rng.expovariate(1 / EXCERPT))]


def failure(name: str, target: Target, data: bytes) -> Failure | None:
    """Why a target did not survive an input; None when it did."""
    began = time.thread_time()
    try:
        target.read(data)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return Failure(name, data, f"{type(error).__name__}: {error}"[:300])
    allowed = SECONDS + SECONDS_PER_BYTE * len(data)
    took = time.thread_time() - began
    if took > allowed:
        began = time.thread_time()
        target.read(data)
        took = min(took, time.thread_time() - began)
    return Failure(name, data, f"{took:.2f} s for {len(data)} bytes") if took > allowed else None
