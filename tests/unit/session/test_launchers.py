"""What a session keeps of launchers that have started no rank."""

from __future__ import annotations

from collectors.fleet.sink import LinkChange
from collectors.samples.ranks import IdleLauncher
from hangtop.session.snapshot import snapshot_of
from hangtop.session.store import Store
from tests.support.made import hello, tick

AGENT = IdleLauncher(50, 900.0, "torchrun train.py", True)


def test_launchers_are_kept_until_they_have_ranks_or_another_stream_begins() -> None:
    store = Store(clock=lambda: 1000.0)
    store.link(LinkChange("node1", "live", "", 1000.0))
    store.samples("node1", [hello(990.0), AGENT, tick(990.0)], 1)
    node = store.state.nodes["node1"]
    (kept,) = node.launchers.values()
    assert (kept.pid, kept.started) == (50, 910.0), "by this machine's clock"
    assert any(isinstance(sample, IdleLauncher) for sample in snapshot_of(store.state, "node1", 1000.0))
    store.samples("node1", [AGENT._replace(idle=False), tick(991.0)], 1)
    assert not node.launchers
    store.samples("node1", [AGENT, tick(992.0)], 1)
    assert node.launchers
    store.samples("node1", [hello(993.0)], 1)
    assert not node.launchers
