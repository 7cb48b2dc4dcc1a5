"""Profiler traces on the screen: where they are is asked for, then each rank's time as a bar, collectives, findings."""

from __future__ import annotations

import asyncio
import shlex
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from hangtop.diagnosis.phrasing import outcome_words
from tui.intent import Intent
from tui.looks.format import plural
from tui.looks.text import harmless, wrap
from tui.looks.theme import Tone
from tui.widgets.lines import Content, Piece

if TYPE_CHECKING:
    from collectors.samples.traces import RankTrace
    from hangtop.session.asking.traced import Line, Part
    from hangtop.session.asking.traces import Asking
    from tui.host import Host

SECONDS = 2.0
"""For which ranks are traced."""
MOST, MARGIN = 144, 10
"""Cells of text in a dialog at its widest; cells of the screen that it leaves."""
HERE = "here:"
QUESTION = (
    "Files, folders or globs on the nodes: /tmp/traces  /scratch/run7/*.json.gz",
    f"On this machine, after {HERE}  {HERE}~/traces",
    "Only their figures are sent; a trace of any size is read in bounded memory.",
)
TONES: dict[Part, Tone] = {
    "compute": Tone.OK,
    "exposed": Tone.BAD,
    "copy": Tone.WARN,
    "data": Tone.ACCENT,
    "idle": Tone.DIM,
    "text": Tone.TEXT,
    "dim": Tone.DIM,
    "strong": Tone.STRONG,
}

Say = Callable[[str], None]


def ask_traces(app: Host) -> None:
    """Ask where the traces are, then read them in the background."""
    from tui.dialogs.asking import LineDialog

    def take(said: str | None) -> None:
        if said and said.strip():
            app.run_worker(_read(app, said), name="traces", exit_on_error=False, exclusive=True, group="traces")

    app.push_screen(LineDialog("Profiler traces", [[(line, Tone.DIM)] for line in QUESTION]), take)


async def _read(app: Host, said: str) -> None:
    from hangtop.session.asking import traces

    here = said.strip().startswith(HERE)
    try:
        patterns = shlex.split(said.strip().removeprefix(HERE))
    except ValueError as error:
        app.say(f"{said}: {error}", "warning")
        return

    async def found(say: Say) -> list[RankTrace]:
        if not here:
            return await traces.read_there(app.session, app.session.job(), patterns, say)
        loop = asyncio.get_running_loop()
        stopped = threading.Event()

        def progress(line: str) -> None:
            loop.call_soon_threadsafe(say, line)

        def advance(_size: int) -> None:
            if stopped.is_set():
                raise asyncio.CancelledError

        try:
            return await asyncio.to_thread(traces.read_here, patterns, progress, advance)
        finally:
            stopped.set()  # or a thread would read on when nobody waits for it any more

    await _shown(app, f"Profiler traces: {said.strip()}", found)


async def ask_ranks(app: Host) -> None:
    """Find out how the ranks can be asked for a trace, say what that does, and ask."""
    from hangtop.session.asking import traces
    from tui.dialogs.asking import ConfirmDialog
    from tui.dialogs.base import TextDialog

    app.say("looking how the ranks can be asked for a trace …")
    asking = await traces.find_ways(app.session, app.session.job(), SECONDS)
    if not asking.possible:
        lines = [*(line for why in asking.missing() for line in wrap(why, _width(app))), "", *traces.HOW_TO_ENABLE]
        app.push_screen(
            TextDialog("No rank can be asked for a trace", [[(harmless(line), Tone.TEXT)] for line in lines])
        )
        return
    commands = [f"on {node}: {command}" for node, several in asking.commands().items() for command in several]
    asked = sum(not way.why for ways in asking.ways.values() for way in ways)
    where = f"{plural(asked, 'rank')} on {plural(len(asking.commands()), 'node')}"
    intent = Intent(f"{where}, the profiler runs for {SECONDS:g} s and slows them meanwhile", "\n".join(commands))

    def take(answer: bool | None) -> None:
        if answer:
            app.run_worker(_trace(app, asking), name="traces", exit_on_error=False, exclusive=True, group="traces")

    app.push_screen(ConfirmDialog("Trace the ranks", intent, "\n".join(asking.missing()[:2])), take)


async def _trace(app: Host, asking: Asking) -> None:
    from hangtop.session.asking import traces

    async def found(say: Say) -> list[RankTrace]:
        say(f"tracing for {asking.seconds:g} s, then the ranks write")
        return await traces.capture(app.session, asking)

    await _shown(app, "Traces of the running ranks", found)


async def _shown(app: Host, title: str, found: Callable[[Say], Awaitable[list[RankTrace]]]) -> None:
    """Run under a dialog that can be stopped, then show the answer in it."""
    from hangtop.session.asking.traced import lines, traced
    from tui.dialogs.running import run_shown
    from tui.handlers.asked import findings_text

    async def work(say: Say) -> tuple[str, Content]:
        answer = traced(await found(say))
        app.session.traces = answer.seen if answer.seen.ranks else app.session.traces
        width = _width(app)
        head = [
            [(line, Tone.STRONG)] for line in wrap(f"{outcome_words(answer.outcome).upper()}  {answer.summary}", width)
        ]
        body = [toned(line) for line in lines(answer, width)]
        return title, [*head, [], *body, [], *findings_text(answer.findings)]

    await run_shown(app, title, work, app.keep)


def toned(line: Line) -> list[Piece]:
    """A line of an answer as the screen draws it."""
    return [(harmless(text), TONES[part]) for text, part in line]


def _width(app: Host) -> int:
    return max(40, min(MOST, app.size.width - MARGIN))
