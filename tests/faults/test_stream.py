"""A node whose owner means harm speaks the stream badly: the screen goes on, and so do the other nodes.

The node side is killed, and what hangtop starts instead is :mod:`tests.faults.hostile_node`.
"""

from __future__ import annotations

import shlex
import sys
import time

import pytest

from tests.faults import hostile_node
from tests.faults.scene import MARK, TICK, Scene
from tests.faults.watch import KEYS

pytestmark = [pytest.mark.nodes, pytest.mark.torch, pytest.mark.slow]

SECONDS = 15.0
"""For which the node is hostile."""
LIVE = "link='live'"
FLOODS = f"(it names ranks beyond|it sends more than|{LIVE})"
"""On a machine that is busy the harm may be too slow to be over any limit: then the node is live, and that is right."""
SAYS = {
    "standard error without end": LIVE,
    "ever more ranks": FLOODS,
    "valid samples as fast as it can": FLOODS,
}
"""What is said of each; of all others that they are no samples."""
NO_SAMPLE = "(no sample|no samples|unknown kind|without an end|malformed|cut off|depth|flood)"


@pytest.mark.parametrize("harm", hostile_node.HARM, ids=lambda harm: harm.replace(" ", "_"))
def test_a_hostile_stream_is_told_and_holds_up_neither_keys_nor_other_nodes(harm: str, scene: Scene) -> None:
    with scene.watched() as watch:
        struck = time.time()
        # The nodes share this machine's processors, which a hostile node cannot take from others.
        scene.wrap_python(f"{MARK}=1 exec nice -n 19 {shlex.join([sys.executable, hostile_node.__file__, harm])}")
        while time.time() < struck + SECONDS:
            time.sleep(1.0)
            assert watch.key() < KEYS
        over = time.time()
        scene.undo.close()
        watch.wait_link("node2", "live", since=over)
        watch.wait_entry("node2", TICK, since=over)
        assert list(watch.found("node2", SAYS.get(harm, NO_SAMPLE), struck)), watch.links("node2")
