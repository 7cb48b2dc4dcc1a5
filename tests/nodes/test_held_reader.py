"""A part of the log reader that never comes back from a line is left out after two restarts, and all else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.fleet import fleet as fleet_module
from collectors.fleet import node_link
from collectors.fleet.fleet import Fleet, FleetOptions
from collectors.fleet.targets.chosen import resolve
from collectors.samples.control import Settings
from collectors.samples.logs import LogEvent
from tests.support import pit_agent
from tests.support.cluster import Cluster
from tests.support.seen import Seen
from tests.support.ssh_server import Person

pytestmark = [pytest.mark.nodes, pytest.mark.slow]

PIT = Path(pit_agent.__file__).read_bytes()
LINES = f"""\
Training completed {"a" * 60}b
NVRM: Xid (PCI:0000:18:00): 79, pid=12, name=python, GPU has fallen off the bus.
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as made:
        yield made


def events(seen: Seen) -> list[LogEvent]:
    return [event for event in seen.of("node1", LogEvent) if isinstance(event, LogEvent)]


async def test_a_part_that_holds_the_interpreter_is_left_out_after_two_restarts(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = cluster.shared / "train.log"
    log.write_text(LINES)
    for module in (node_link, fleet_module):  # the test's own entry, which comes along as a further file
        monkeypatch.setattr(module, "AGENT", "pit_agent")
    options = FleetOptions(
        Settings(1.0, 0.0, None, [str(log)], [], []), cluster.ssh_config, version="v",
        extra={"pit_agent.py": PIT},
    )  # fmt: skip
    seen = Seen()
    fleet = Fleet(resolve(["node1"]), sink=seen, asker=Person(), options=options)
    await fleet.start()
    try:
        await seen.wait(lambda: {"log.unread", "kernel.xid"} <= {event.kind for event in events(seen)}, 60.0)
    finally:
        await fleet.close()
    told = [event for event in events(seen) if event.kind == "log.unread"]
    assert told[0].data == {"part": pit_agent.PART}
    assert told[0].source == str(log)
    assert "held up hangtop's interpreter" in told[0].text
    whys = [change.why for change in seen.changes if change.link == "lost"]
    assert sum(f"it was reading a log (part {pit_agent.PART})" in why for why in dict.fromkeys(whys)) == 1
