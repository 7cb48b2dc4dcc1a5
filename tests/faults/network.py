"""Links: cut, half open, slow, losing packets, addresses that say nothing."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from tests.faults.fault import Family, Outcome, Play
from tests.faults.scene import Scene, Strike, disturbed

fault = Family("network")


def _slow(scene: Scene) -> None:
    """64 kbit/s either way."""
    words = ("tbf", "rate", "64kbit", "burst", "8kb", "latency", "2s")
    scene.undo.callback(_unshape, scene)
    subprocess.run(["tc", "qdisc", "replace", "dev", scene.struck.port, "root", *words], check=True)
    scene.struck.run(["tc", "qdisc", "replace", "dev", "eth0", "root", *words])


def _unshape(scene: Scene) -> None:
    subprocess.run(["tc", "qdisc", "del", "dev", scene.struck.port, "root"], check=False, capture_output=True)
    scene.struck.run(["tc", "qdisc", "del", "dev", "eth0", "root"], check=False)


def _lossy(scene: Scene) -> None:
    """Every third packet at random, either way."""
    scene.undo.callback(_undrop, scene)
    rules = "".join(
        f"chain {hook} {{ type filter hook {hook} priority 0; numgen random mod 3 0 drop; }}\n"
        for hook in ("input", "output")
    )
    scene.struck.run(["nft", "-f", "-"], stdin=f"table inet hx {{\n{rules}}}\n")


def _drop(scene: Scene, *hooks: str) -> None:
    """Drop TCP of sshd's port on the node without a word, in these directions; the link stays up."""
    ways = {"input": "tcp dport 22 drop", "output": "tcp sport 22 drop"}
    rules = "".join(
        f"chain {hook} {{ type filter hook {hook} priority 0; {ways[hook]}; }}\n" for hook in hooks
    )  # fmt: skip
    scene.struck.run(["nft", "-f", "-"], stdin=f"table inet hx {{\n{rules}}}\n")


def _undrop(scene: Scene) -> None:
    scene.struck.run(["nft", "delete", "table", "inet", "hx"], check=False)


LOST = "(link is cut|no answer|is down)"

fault("link cut for 30 s", LOST)(Strike(lambda s: s.struck.cut(), lambda s: s.struck.restore(), why=LOST, hold=30.0))
fault("half open: what the node sends is dropped", LOST)(Strike(lambda s: _drop(s, "output"), _undrop, why=LOST))
fault("half open: what is sent to the node is dropped", LOST)(Strike(lambda s: _drop(s, "input"), _undrop, why=LOST))
fault("half open both ways", LOST)(Strike(lambda s: _drop(s, "input", "output"), _undrop, why=LOST))


def _stays(begin: Callable[[Scene], None], end: Callable[[Scene], None], seconds: float = 20.0) -> Play:
    """A fault under which samples go on, late perhaps, and no more is said than that they are."""

    def play(scene: Scene) -> Outcome:
        before = scene.before()
        with scene.watch() as watch:
            name, struck = scene.struck.name, time.time()
            begin(scene)
            time.sleep(seconds)
            end(scene)
            over = time.time()
            ticked, _ = watch.wait_entry(name, r"^Tick\(", since=over)
            watch.quit()
            lost = [change for change in watch.links(name) if change.at >= struck and change.link == "lost"]
            ticks = [at for at, _ in watch.found(name, r"^Tick\(") if struck <= at <= over]
            return Outcome(
                said=f"lost: {lost[0].why}" if lost else f"samples go on: {len(ticks)} in {seconds:.0f} s",
                recovered=ticked - over, grown=watch.usage.grown, left=scene.left(before),
                disturbed=disturbed(watch.links(), scene.well, struck),
            )  # fmt: skip

    return play


# TCP sends again after ever longer pauses, and sooner or later one is longer than the node side lives unheard.
GOES_ON = "samples go on: ([6-9]|1[0-9]|2[0-9]) "
fault("a third of the packets lost", f"({GOES_ON}|lost: .*(heard nothing|no answer))")(_stays(_lossy, _undrop))
fault("64 kbit/s", GOES_ON)(_stays(_slow, _unshape))
