"""What a node makes of something odd, sent and read again: the other side must not refuse it."""

from __future__ import annotations

from typing import NamedTuple

from collectors.fleet.decode import Decoder
from collectors.node import wire


def arrived(sample: NamedTuple) -> NamedTuple:
    """The sample as it comes in here: cleaned, and with numbers that the decoders bound. Fails where it is refused."""
    decoder = Decoder()
    found = decoder.feed(wire.encode(sample))
    refused = decoder.bad_lines()
    assert not refused, refused
    (one,) = found
    assert type(one) is type(sample)
    return one
