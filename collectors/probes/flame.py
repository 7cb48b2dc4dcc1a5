"""Flame graphs: ranks are sampled for some seconds without pausing them; a tree for the screen, an SVG file."""

from __future__ import annotations

import asyncio
import binascii
import shlex
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import NamedTuple

from collectors.fleet.clean import clean
from collectors.fleet.payload import command, pack
from collectors.fleet.transport import Transport
from collectors.node.stacks.asking import WantsPySpy
from collectors.node.stacks.flamerecord import LIMIT, FlameProgress, FlameRecording, FlameRequest
from collectors.node.stacks.pyspy import record_command
from collectors.probes.running import Limits, Running, one_of
from collectors.probes.stacks import lending_once, loan

ANSWER_SECONDS = 40.0
_decode = one_of(FlameProgress, FlameRecording, WantsPySpy)


@dataclass(frozen=True, slots=True)
class FoldedStacks:
    """Folded stacks of one process, ``outer;inner 62`` a line, thread first; or why there are none."""

    pid: int
    seconds: float
    stacks: str
    error: str


def shown_command(pids: Sequence[int], seconds: float, rate: int = 50, py_spy: str = "") -> str:
    """What will be run on a node, to show before it is: one py-spy a process, here for the first of them."""
    words = record_command(py_spy or "py-spy", pids[0] if pids else 0, seconds, rate, "(memory)")
    more = f"  # and {len(pids) - 1} more" if len(pids) > 1 else ""
    return shlex.join(words).replace("'(memory)'", "(memory)") + more


async def record(
    transport: Transport,
    pids: Sequence[int],
    *,
    seconds: float,
    rate: int = 50,
    py_spy: str = "",
    python: str = "python3",
    on_progress: Callable[[float, int], None] | None = None,
    stop: asyncio.Event | None = None,
) -> list[FoldedStacks]:
    """Sample these processes of one node for ``seconds`` at ``rate`` a second, without pausing them.

    ``on_progress`` hears seconds done and processes running, twice a second. Setting ``stop`` ends it early with what
    there is; cancelling ends it without. Every pid gets an answer. Raises
    :class:`~collectors.fleet.transport.TransportError` when the program cannot be started.
    """
    found: dict[int, FoldedStacks] = {}
    lender = lending_once(loan)

    def take(line: bytes) -> bool:
        sample = _decode(line)
        if isinstance(sample, FlameProgress) and on_progress is not None:
            on_progress(sample.elapsed, sample.running)
        elif isinstance(sample, FlameRecording) and sample.pid in pids and sample.pid not in found:
            found[sample.pid] = _unpacked(sample)
        elif isinstance(sample, WantsPySpy):
            running.write(lender(sample.machine))
        return False

    request = FlameRequest(list(pids), seconds, rate, py_spy)
    packed = pack("collectors.node.stacks.flamerecord", list(request))
    limits = Limits(line=2 * LIMIT, total=4 * LIMIT)
    running = Running(transport, command(python, nice=False), packed, take, limits=limits)
    async with running:
        stopping = asyncio.create_task(_pass_on(stop, running))
        try:
            await running.ended(seconds + ANSWER_SECONDS)
            why = "failed: the recorder ended early"
        except TimeoutError:
            why = "timeout: the recorder did not answer"
        finally:
            stopping.cancel()
    said = running.said()
    absent = FoldedStacks(0, 0.0, "", f"{why}: {said}" if said else why)
    return [found.get(pid, FoldedStacks(pid, 0.0, "", absent.error)) for pid in pids]


async def _pass_on(stop: asyncio.Event | None, running: Running) -> None:
    if stop is not None:
        await stop.wait()
        running.write(b"stop\n")


def _unpacked(sample: FlameRecording) -> FoldedStacks:
    try:
        unpacker = zlib.decompressobj()
        stacks = unpacker.decompress(b64decode(sample.stacks, validate=True), LIMIT)
    except (zlib.error, binascii.Error, ValueError):
        return FoldedStacks(sample.pid, sample.seconds, "", "failed: the recording came broken")
    return FoldedStacks(sample.pid, sample.seconds, clean(stacks.decode("utf-8", "replace")), sample.error)


# --- the tree ----------------------------------------------------------------------------------------------------

DEEPEST = 300
"""Frames of a stack that are kept: further in there is recursion, and nobody scrolls there."""


@dataclass(slots=True)
class Flame:
    """One frame in its place: how many samples were taken in it, and what was further in."""

    name: str
    samples: int = 0
    children: dict[str, Flame] = field(default_factory=dict)

    def ordered(self) -> list[Flame]:
        """What is further in, most samples first."""
        return sorted(self.children.values(), key=lambda child: (-child.samples, child.name))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Flame]]:
        """This frame and all inside of it, with depths, most samples first."""
        yield depth, self
        for child in self.ordered():
            yield from child.walk(depth + 1)

    def add(self, path: Iterable[str], samples: int) -> None:
        """Count a stack, outermost frame first."""
        node = self
        node.samples += samples
        for name in path:
            node = node.children.setdefault(name, Flame(name))
            node.samples += samples


def folded(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Stacks of ``outer;inner 62`` lines; a line that is none is left out."""
    for line in text.splitlines():
        path, _, count = line.rpartition(" ")
        if path and count.isdecimal() and len(count) < 16:
            yield tuple(path.split(";")), int(count)


def profile(recordings: Iterable[tuple[str, str]], title: str = "all") -> Flame:
    """One tree over several processes, each given as (name, folded stacks) and kept apart at the first level."""
    root = Flame(title)
    for name, text in recordings:
        for path, samples in folded(text):
            root.add((name, *map(short, path[:DEEPEST])), samples)
    return root


def short(frame: str) -> str:
    """A frame with its file's last two folders at most: paths would hide the names."""
    name, opening, place = frame.rpartition(" (")
    if not opening or not place.endswith(")"):
        return frame
    parts = place.split("/")
    return f"{name} ({'/'.join(parts[-3:])}" if len(parts) > 3 else frame


# --- the picture -------------------------------------------------------------------------------------------------

WIDTH = 1200.0
"""Points of the whole picture."""
_ROW, _MARGIN, _LETTER = 17, 24, 6.6
_NARROWEST = 0.3
"""Points under which a frame is not drawn: nobody could see it."""


class _Box(NamedTuple):
    depth: int
    x: float
    width: float
    frame: Flame


def save(root: Flame, path: Path) -> None:
    """Write the picture. Raises :class:`OSError` as the file system says it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_svg(root), encoding="utf-8")


def as_svg(root: Flame) -> str:
    """An icicle: the outermost frame on top, as wide as its share of samples; hover for the figures."""
    boxes = list(_boxes(root, 0, 0.0, WIDTH)) if root.samples else []
    height = (max((box.depth for box in boxes), default=0) + 1) * _ROW + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height}"'
        ' font-family="monospace" font-size="11">\n'
        '<rect width="100%" height="100%" fill="#fdfdf8"/>\n'
        f'<text x="4" y="16">{escape(root.name)}: {root.samples} samples</text>\n'
    )
    return head + "".join(_drawn(box, root.samples) for box in boxes) + "</svg>\n"


def _boxes(frame: Flame, depth: int, x: float, width: float) -> Iterator[_Box]:
    yield _Box(depth, x, width, frame)
    for child in frame.ordered():
        share = width * child.samples / frame.samples
        if share >= _NARROWEST:
            yield from _boxes(child, depth + 1, x, share)
        x += share


def _drawn(box: _Box, all_samples: int) -> str:
    name, y = box.frame.name, _MARGIN + box.depth * _ROW
    letters = int(box.width / _LETTER) - 1
    shown = name if len(name) <= letters else name[: max(0, letters - 1)] + "…" if letters > 2 else ""
    share = 100 * box.frame.samples / all_samples
    text = f'<text x="{box.x + 3:.1f}" y="{y + 12}">{escape(shown)}</text>' if shown else ""
    return (
        f"<g><title>{escape(name)}: {box.frame.samples} samples, {share:.1f} %</title>"
        f'<rect x="{box.x:.1f}" y="{y}" width="{box.width:.1f}" height="{_ROW - 1}" fill="{_colour(name)}"/>'
        f"{text}</g>\n"
    )


def _colour(name: str) -> str:
    """The same frame has the same warm colour everywhere."""
    value = sum(map(ord, name))
    return f"hsl({15 + value % 40},{60 + value % 25}%,{68 + value % 12}%)"
