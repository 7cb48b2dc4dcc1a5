"""What is sent to look at stacks is read and compressed once, and not while an event loop waits for it."""

from __future__ import annotations

from zlib import compress

import pytest

from collectors.fleet import payload
from collectors.fleet.local import Local
from collectors.node.stacks.dump_request import DumpRequest
from collectors.probes.stacks import prepare
from collectors.probes.stacks.dumper import Dumper, DumpOrder


def test_who_asks_after_it_was_prepared_compresses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    payload._body.cache_clear()
    packed: list[int] = []

    def count(data: bytes, level: int) -> bytes:
        packed.append(len(data))
        return compress(data, level)

    monkeypatch.setattr("collectors.fleet.payload.zlib.compress", count)
    prepare()
    assert len(packed) == 1
    Dumper(Local("node1"), DumpOrder(DumpRequest([[7, 7]]), "python3", 5.0, lambda _machine: b""))
    assert len(packed) == 1
