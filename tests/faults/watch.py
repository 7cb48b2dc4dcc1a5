"""hangtop's screen in a terminal of its own: what it took in, how much memory it has, how soon it answers keys."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from collectors.fleet.sink import LinkChange
from hangtop.session.recording import Entry, Recording, RecordingError
from tests.support.tmux import Tmux
from tui.panels.registry import BY_NAME

T = TypeVar("T")

FLUSH = 0.3
"""Seconds between two writes of a recording; else five."""
_OFTEN = f"from hangtop.session import recorder as blocks; blocks.BLOCK_SECONDS = {FLUSH}; "
WATCHED = (sys.executable, "-c", _OFTEN + "from hangtop.cli.main import main; main()")
"""Words that start hangtop, with recordings that are written out more often, so that what is told is seen soon."""
HELP = BY_NAME["overview"].help[:24]
"""What the help over the first panel begins with, and no panel shows, …"""
TABS = "[Overview]"
"""… and what a screen of some width without it begins with."""
KEYS = 10.0
"""Seconds after which a key has been answered, on a machine that plays all nodes and does other things, too."""
STAYS = 0.3
"""Seconds for which the screen must show what a key has done."""
LOOK = 0.3
"""Seconds between two looks at a recording."""


class Watch:
    """The screen, recording what it sees. Waits raise :class:`AssertionError` with all that was told."""

    def __init__(self, file: Path, words: Sequence[str], inside: Sequence[str] = ()) -> None:
        """``words`` are arguments; ``inside`` words before the command, which takes their place."""
        self.file = file
        self.terminal = Tmux([*inside, *WATCHED, "watch", "--record", str(file), "--batch", *words])

    def __enter__(self) -> Watch:
        self.terminal.__enter__()
        self.pid = self.terminal.pid()
        return self

    def __exit__(self, *of: object) -> None:
        self.terminal.__exit__(None, None, None)

    def begin(self) -> None:
        """Measure its memory from now on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # the peak begins anew: proc_pid_clear_refs(5)
        self._before = self._memory("VmRSS")

    @property
    def grown(self) -> float:
        """MB from then to the peak."""
        return self._memory("VmHWM") - self._before

    def _memory(self, field: str) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition(f"{field}:")[2].split()[0]) / 1e3

    @property
    def ended(self) -> bool:
        """It has left the terminal."""
        return not Path("/proc", str(self.pid)).exists()

    def entries(self) -> list[Entry]:
        """All that was recorded by now, as far as it has been written."""
        try:
            return list(Recording(self.file).entries())
        except (RecordingError, OSError):
            return []  # nothing has been written yet

    def links(self, node: str | None = None) -> list[LinkChange]:
        """Changes of a node's link (or all) so far, oldest first."""
        changes = [entry.payload for entry in self.entries() if isinstance(entry.payload, LinkChange)]
        return [change for change in changes if node in (None, change.node)]

    def found(self, node: str, pattern: str, since: float = 0.0) -> Iterator[tuple[float, str]]:
        """When samples, bad lines and changes of a node came in which a pattern is found, and their texts."""
        for entry in self.entries():
            if entry.node == node and entry.at >= since and re.search(pattern, said := str(entry.payload)):
                yield entry.at, said

    def wait_link(
        self, node: str, link: str, why: str = "", *, since: float = 0.0, seconds: float = 60.0
    ) -> LinkChange:
        """Wait for a state of a node's link with such a reason (a regular expression), from a moment (epoch) on."""

        def look() -> LinkChange | None:
            fits = (c for c in self.links(node) if c.at >= since and c.link == link and re.search(why, c.why))
            return next(fits, None)

        return self._wait(look, f"{node} never {link!r} {why!r}", seconds)

    def wait_live(self, nodes: Sequence[str], *, seconds: float = 60.0) -> float:
        """Wait until the last word on each of these nodes is live; the moment of the last one's."""

        def look() -> float | None:
            last = {change.node: change for change in self.links()}
            return max(last[n].at for n in nodes) if all(n in last and last[n].link == "live" for n in nodes) else None

        return self._wait(look, f"not all of {', '.join(nodes)} are live", seconds)

    def wait_entry(self, node: str, pattern: str, *, since: float = 0.0, seconds: float = 60.0) -> tuple[float, str]:
        """Wait for the first of :meth:`found`."""
        return self._wait(lambda: next(self.found(node, pattern, since), None), f"{node}: no {pattern!r}", seconds)

    def _wait(self, look: Callable[[], T | None], failing: str, seconds: float) -> T:
        deadline = time.monotonic() + seconds
        while (found := look()) is None:
            told = "\n".join(
                f"{change.node} {change.at:.1f} {change.link} {change.why}" for change in self.links()[-30:]
            )
            assert not self.ended, f"{failing}: hangtop ended\n{told}"
            assert time.monotonic() < deadline, f"{failing} within {seconds:.0f} s\n{told}"
            time.sleep(LOOK)
        return found

    def key(self, seconds: float = 20.0) -> float:
        """Open the help and close it again; seconds that the slower of both took to be seen."""
        return max(self._pressed("?", seconds, helps=True), self._pressed("Escape", seconds, helps=False))

    def _pressed(self, key: str, seconds: float, *, helps: bool) -> float:
        """Seconds until the help is there, or gone; returns when it has been for a while.

        A terminal that draws may show it torn for a moment, and an Escape that comes with the next key is Alt and that.
        """
        began = since = time.monotonic()
        self.terminal.press(key)
        while time.monotonic() - since < STAYS:
            if (HELP in self.terminal.screen()) is not helps:
                since = time.monotonic()
                assert since < began + seconds, f"{key} was not answered:\n{self.terminal.screen()}"
            time.sleep(0.03)
        return since - began

    def quit(self) -> None:
        """Press q, at which it leaves the terminal."""
        self.terminal.press("q")
        self.wait_ended()

    def wait_ended(self, seconds: float = 20.0) -> None:
        """Wait until it has left the terminal."""
        began = time.monotonic()
        while not self.ended:
            assert time.monotonic() < began + seconds, f"it does not end:\n{self.terminal.screen()}"
            time.sleep(0.01)
