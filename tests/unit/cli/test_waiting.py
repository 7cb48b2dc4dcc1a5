"""When nodes count as connected: what a command needs of them must have been said, however busy they are."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from collectors.fleet.sink import LinkChange
from collectors.samples.stream import SourceState
from hangtop.cli import connecting
from hangtop.cli.terminal import TerminalAsker
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import hello, tick


class Nodes:
    """A session to which the nodes of a test speak when it has waited for a while."""

    def __init__(self, *names: str) -> None:
        self.session = Session(SessionOptions())
        self.slept = 0
        self.at: dict[int, tuple[str, list[str]]] = {}
        for name in names:
            self.session.link(LinkChange(name, "connecting", "", 1000.0))

    def comes(self, name: str, *sources: str) -> None:
        self.session.link(LinkChange(name, "live", "", 1000.0))
        self.session.samples(name, [hello(1000.0), tick(1000.0)])
        self.says(name, *sources)

    def says(self, name: str, *sources: str) -> None:
        self.session.samples(name, [SourceState(source, "ok", "", 1000.0) for source in sources])

    async def sleep(self, _seconds: float) -> None:
        self.slept += 1
        if self.slept in self.at:
            name, sources = self.at[self.slept]
            if sources == ["comes"]:
                self.comes(name, *connecting.SOURCES)
            else:
                self.says(name, *sources)


def connect(nodes: Nodes, monkeypatch: pytest.MonkeyPatch, *needs: str) -> None:
    """Time stands still in it, so that only what was said can end it."""
    monkeypatch.setattr(connecting, "asyncio", SimpleNamespace(sleep=nodes.sleep))
    monkeypatch.setattr(connecting, "time", SimpleNamespace(monotonic=lambda: nodes.slept * connecting.STEP))
    asyncio.run(connecting.connected(nodes.session, lambda _text: None, needs))


def test_a_source_that_is_needed_is_waited_for_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes("node1")
    nodes.comes("node1", "ranks")
    late = round(connecting.SETTLE / connecting.STEP) + 20
    nodes.at[late] = "node1", ["network"]
    connect(nodes, monkeypatch, "ranks", "network")
    assert nodes.slept == late
    hurried = Nodes("node1")
    hurried.comes("node1", "ranks")
    connect(hurried, monkeypatch)
    assert hurried.slept < late


def test_who_types_a_password_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes("node1")
    typed = round(connecting.CONNECT / connecting.STEP) * 2
    monkeypatch.setattr(TerminalAsker, "asking", property(lambda _self: nodes.slept < typed))
    nodes.session.asker = TerminalAsker()
    nodes.at[typed] = "node1", ["comes"]
    connect(nodes, monkeypatch)
    assert nodes.slept == typed
    assert nodes.session.state.nodes["node1"].link == "live"
