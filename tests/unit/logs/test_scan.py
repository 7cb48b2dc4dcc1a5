"""The literals of all families in whole chunks: the lines that have one, and no others."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.node.logs.prefilter import Scanner

STEMS = [(b"Errno 98", 1), (b"clients joined", 2), (b"NCCL WARN", 4), (b"WARN", 8), (b"got 0 bytes", 16)]
SCANNER = Scanner(STEMS)

words = st.sampled_from([b"step ", b"loss 0.5", b"Errno 98", b"Errno ", b"7", b"9", b"8", b"got ", b" bytes", b"WARN",
                         b"NCCL ", b"clients joined", b"got 1 bytes", b"got 0 bytes"])  # fmt: skip
lines = st.lists(st.lists(words, max_size=4).map(b"".join), max_size=12)


def one_by_one(text: bytes) -> dict[int, int]:
    found, start = {}, 0
    for line in text.split(b"\n")[:-1]:
        mask = sum(bits for stem, bits in STEMS if stem in line)
        if mask:
            found[start] = mask
        start += len(line) + 1
    return found


@settings(deadline=None)
@given(lines, st.sampled_from([1, 5, 80]))
def test_chunks_as_line_by_line(some: list[bytes], repeated: int) -> None:
    text = b"".join(line + b"\n" for line in some * repeated)
    found = SCANNER.hits(text)
    assert found == one_by_one(text)
    assert list(found) == sorted(found)
