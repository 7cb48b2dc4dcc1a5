"""The words of the wire: what the node side writes with json, msgspec reads back into the same NamedTuples."""

import json

import msgspec
import pytest

from collectors.samples.logs import LogEvent
from collectors.samples.registry import IDENTITY, SAMPLES
from collectors.samples.stream import Lent, Settings


@pytest.mark.parametrize("kind", [*SAMPLES, Settings, Lent], ids=lambda kind: kind.__name__)
def test_every_kind_has_a_decoder(kind: type) -> None:
    decoder = msgspec.json.Decoder(tuple[str, kind])  # type: ignore[valid-type]
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(b'["Kind","no row"]')


def test_a_sample_survives_the_wire() -> None:
    event = LogEvent("nccl.warn", None, 3, "node1", 77, "/tmp/x.log", 12, "NCCL WARN x", {"a": [1, "b"], "c": 0.5})
    line = json.dumps(["LogEvent", event])
    assert msgspec.json.Decoder(tuple[str, LogEvent]).decode(line)[1] == event


def test_identities_name_fields_that_exist() -> None:
    assert all(max(places, default=0) < len(kind._fields) for kind, places in IDENTITY.items())
