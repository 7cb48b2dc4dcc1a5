"""Repairs of a session: never on a node whose ranks are not known, never read-only, and each says what it will do."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from collectors.fleet.local import Local
from collectors.probes.repair.remote.words import Curable
from collectors.samples.stream import SourceState
from hangtop.session.probes import Probe, ProbeRefused
from hangtop.session.probes import repair as repairs
from hangtop.session.probes.repair import Repairable
from tests.support.screens import NOW, Paper, PaperSession


def repairable(pid: int = 812, node: str = "node1", *, sure: bool = True, **fields: object) -> Repairable:
    one = Curable(
        "orphan", pid, 5, 0.0, 0, "rank", "ada", "old", "torchrun", "python train.py", "S", [29500], sure, "why"
    )
    return Repairable(node, one._replace(**fields), 7200.0, 3 << 30)  # type: ignore[arg-type]


def ending(session: PaperSession, *processes: Repairable, grace: float = 5.0) -> Probe:
    return repairs.signal_probe(session, "End", "TERM", processes, grace)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> PaperSession:
    monkeypatch.setattr(PaperSession, "transport", lambda _session, node: Local(node))
    monkeypatch.setattr(PaperSession, "python", lambda _session, _node: sys.executable)
    monkeypatch.setenv("HANGTOP_ONLY", "HX_NOBODY=1")
    return Paper(nodes=2, gpus=1).session()


async def test_a_node_whose_ranks_are_not_known_is_not_looked_at(session: PaperSession) -> None:
    session.samples("node2", [SourceState("ranks", "denied", "processes of other users", NOW)], 100)
    looked = await repairs.look(session)
    assert (looked.orphans, looked.stopped) == ((), ())
    assert list(looked.unknown) == ["node2"]
    assert "which ranks are the job's is not known there" in looked.unknown["node2"]


async def test_a_session_that_may_only_look_signals_nobody(
    session: PaperSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.options = replace(session.options, read_only=True)
    monkeypatch.setattr(PaperSession, "transport", lambda *_: pytest.fail("it reached for a node"))
    with pytest.raises(ProbeRefused, match="--read-only"):
        await ending(session, repairable()).run(print)


async def test_a_port_is_proposed_by_those_that_answer(session: PaperSession) -> None:
    found, silent = await repairs.free_port(session, 29500)
    assert found.port is not None
    assert silent == {}
    assert f"MASTER_PORT={found.port}" in "\n".join(repairs.port_text(found, {"node9": "lost"}))
