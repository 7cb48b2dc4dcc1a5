"""The words of the wire: what the node side writes with json, msgspec reads back into the same NamedTuples."""

import json

import msgspec
import pytest

from collectors.node.source import IDENTITY
from collectors.samples.control import Beat, Lent, Settings
from collectors.samples.logs import LogEvent
from collectors.samples.registry import SAMPLES


@pytest.mark.parametrize("kind", [*SAMPLES, Settings, Beat, Lent], ids=lambda kind: kind.__name__)
def test_every_kind_has_a_decoder(kind: type) -> None:
    decoder = msgspec.json.Decoder(tuple[str, kind])  # type: ignore[valid-type]
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(b'["Kind","no row"]')


def test_a_sample_survives_the_wire() -> None:
    event = LogEvent("nccl.warn", None, 3, "node1", 77, "/tmp/x.log", 12, "NCCL WARN x", {"a": [1, "b"], "c": 0.5})
    line = json.dumps(["LogEvent", event])
    assert msgspec.json.Decoder(tuple[str, LogEvent]).decode(line)[1] == event


ALWAYS_SENT = {
    "Hello", "Tick", "RankGone", "HelperGone", "IdleLauncher", "LogLines", "LogEvent",
}  # fmt: skip
"""Events, and samples whose source itself sends what is new alone."""


def test_every_kind_says_of_what_it_speaks_or_is_always_sent() -> None:
    kinds = {kind.__name__: kind for kind in SAMPLES}
    assert kinds.keys() - IDENTITY.keys() == ALWAYS_SENT
    assert all(max(places, default=0) < len(kinds[name]._fields) for name, places in IDENTITY.items())
