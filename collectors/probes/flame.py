"""Flame graphs: sample ranks for some seconds without a pause, as a tree for the screen and as an SVG file."""

from __future__ import annotations

import binascii
import shlex
import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from collectors.fleet.clean import clean
from collectors.fleet.payload import command, pack
from collectors.fleet.transport import Transport
from collectors.node.stacks.flamerecord import LIMIT, FlameRecording
from collectors.node.stacks.pyspy import record_command
from collectors.probes.running import Limits, Running, answer
from collectors.probes.stacks import lending_once

ANSWER_SECONDS = 40.0
_recording = answer(FlameRecording)


def shown_command(pids: Sequence[int], seconds: float) -> str:
    """The command for a node, to show before its run: one py-spy per process, here for the first process."""
    words = record_command("py-spy", pids[0] if pids else 0, seconds, "(memory)")
    more = f"  # and {len(pids) - 1} more" if len(pids) > 1 else ""
    return shlex.join(words).replace("'(memory)'", "(memory)") + more


async def record(transport: Transport, pids: Sequence[int], *, seconds: float) -> list[FlameRecording]:
    """Sample these processes of one node for ``seconds``, without pausing them.

    Returns one recording per pid: its unpacked stacks, with lines ``outer;inner 62``, thread first; or an error.
    Raises :class:`~collectors.fleet.transport.TransportError` if the program cannot be started.
    """
    found: dict[int, FlameRecording] = {}
    lender = lending_once()

    def take(line: bytes) -> bool:
        wish = lender(line)
        if wish:
            running.write(wish)
        else:
            recording = _recording(line)
            if recording.pid in pids:
                found.setdefault(recording.pid, _unpacked(recording))
        return False

    packed = pack("collectors.node.stacks.flamerecord", [list(pids), seconds])
    limits = Limits(line=2 * LIMIT, total=4 * LIMIT)
    running = Running(transport, command(transport.python, nice=False), packed, take, limits=limits)
    async with running:
        try:
            await running.ended(seconds + ANSWER_SECONDS)
            why = "failed: the recorder ended early"
        except TimeoutError:
            why = "timeout: the recorder did not answer"
    why = ": ".join(filter(None, (why, running.last_error())))
    return [found.get(pid, FlameRecording(pid, "", why)) for pid in pids]


def _unpacked(sample: FlameRecording) -> FlameRecording:
    try:
        unpacker = zlib.decompressobj()
        stacks = unpacker.decompress(b64decode(sample.stacks, validate=True), LIMIT)
    except (zlib.error, binascii.Error, ValueError):
        return FlameRecording(sample.pid, "", "failed: the recording arrived damaged")
    return sample._replace(stacks=clean(stacks.decode("utf-8", "replace")))


# --- the tree and its picture --------------------------------------------------------------------------------------

DEEPEST = 300
"""Most frames kept of a stack: a deeper stack is a recursion."""
WIDTH, ROW, MARGIN = 1200.0, 17, 24
"""Points: width of the picture, height of a row, margin above and below."""
NARROWEST = 0.3
"""Smallest width in points at which a frame is drawn."""


@dataclass(slots=True)
class Flame:
    """One frame in its place: the number of samples in the frame, and the frames that it called."""

    name: str
    samples: int = 0
    children: dict[str, Flame] = field(default_factory=dict)

    def ordered(self) -> list[Flame]:
        """The frames that it called, most samples first."""
        return sorted(self.children.values(), key=lambda child: (-child.samples, child.name))

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Flame]]:
        """This frame and all frames inside, with depths, most samples first."""
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


def profile(recordings: Iterable[tuple[str, str]], title: str = "all") -> Flame:
    """One tree for several processes, each given as (name, folded stacks), with one child of the root per process.

    Folded stacks are lines ``outer;inner 62``; other lines are skipped.
    """
    root = Flame(title)
    for name, text in recordings:
        for line in text.splitlines():
            path, _, count = line.rpartition(" ")
            if path and count.isdecimal() and len(count) < 16:
                root.add((name, *map(_short, path.split(";")[:DEEPEST])), int(count))
    return root


def _short(frame: str) -> str:
    """A frame with at most two folders of its file, because long paths would hide the names."""
    name, opening, place = frame.rpartition(" (")
    return f"{name} ({'/'.join(place.split('/')[-3:])}" if opening and place.endswith(")") else frame


def save(root: Flame, path: Path) -> None:
    """Write the picture as SVG. May raise :class:`OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_svg(root), encoding="utf-8")


def as_svg(root: Flame) -> str:
    """An icicle graph: outermost frames on top, widths by share of samples, figures on hover."""
    boxes = list(_boxes(root, 0, 0.0, WIDTH / max(1, root.samples)))
    height = (max(depth for depth, _ in boxes) + 1) * ROW + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height}" font-family="monospace" '
        f'font-size="11">\n<rect width="100%" height="100%" fill="#fdfdf8"/>\n'
        f'<text x="4" y="16">{escape(root.name)}: {root.samples} samples</text>\n'
        f"{''.join(drawn for _, drawn in boxes)}</svg>\n"
    )


def _boxes(frame: Flame, depth: int, x: float, each: float) -> Iterator[tuple[int, str]]:
    """Depth and SVG of a frame and of all frames inside; ``each``: points per sample. The name fixes the colour."""
    width, value = each * frame.samples, sum(map(ord, frame.name))
    yield (
        depth,
        (
            f'<svg x="{x:.1f}" y="{MARGIN + depth * ROW}" width="{width:.1f}" height="{ROW - 1}">'
            f"<title>{escape(frame.name)}: {frame.samples} samples, {100 * width / WIDTH:.1f} %</title>"
            f'<rect width="100%" height="100%" fill="hsl({15 + value % 40},70%,72%)"/>'
            f'<text x="3" y="12">{escape(frame.name)}</text></svg>\n'
        ),
    )
    for child in frame.ordered():
        if each * child.samples >= NARROWEST:
            yield from _boxes(child, depth + 1, x, each)
        x += each * child.samples
