"""Profiler traces: where they are is asked for, then each rank's time as a bar, collectives, findings."""

from __future__ import annotations

import asyncio
import shlex
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tui.handlers.ask import offer
from tui.looks.format import plural
from tui.looks.theme import Tone
from tui.order import Answer, Order, Refused, Say
from tui.texts.answers import answer_text, plain, toned
from tui.widgets.lines import Content

if TYPE_CHECKING:
    from collectors.samples.traces import RankTrace
    from tui.host import Host

SECONDS = 2.0
"""For which ranks are traced."""
MOST, MARGIN = 144, 10
"""Cells of text in a dialog at its widest; cells of the screen that it leaves."""
HERE = "here:"
QUESTION: Content = [
    [("Files, folders or globs on the nodes: /tmp/traces  /scratch/run7/*.json.gz", Tone.DIM)],
    [(f"On this machine, after {HERE}  {HERE}~/traces", Tone.DIM)],
    [("Only their figures are sent; a trace of any size is read in bounded memory.", Tone.DIM)],
]
Found = Callable[[Say], Awaitable["list[RankTrace]"]]


def ask_traces(app: Host) -> None:
    """Ask where the traces are, then read them in view."""
    from tui.dialogs.asking import LineDialog

    def take(said: str | None) -> None:
        if said and said.strip():
            offer(app, _order(app, f"Profiler traces: {said.strip()}", _reading(app, said.strip())))

    app.push_screen(LineDialog("Profiler traces", QUESTION), take)


def _reading(app: Host, said: str) -> Found:
    from hangtop.session.asking import traces

    async def found(say: Say) -> list[RankTrace]:
        try:
            patterns = shlex.split(said.removeprefix(HERE))
        except ValueError as error:
            raise Refused(f"{said}: {error}") from None
        if not said.startswith(HERE):
            return await traces.read_there(app.session, app.session.job(), patterns, say)
        loop, stopped = asyncio.get_running_loop(), threading.Event()

        def progress(line: str) -> None:
            loop.call_soon_threadsafe(say, line)

        def advance(_size: int) -> None:
            if stopped.is_set():
                raise asyncio.CancelledError

        try:
            return await asyncio.to_thread(traces.read_here, patterns, progress, advance)
        finally:
            stopped.set()  # or a thread would read on when nobody waits for it any more

    return found


async def trace_ranks(app: Host) -> Order:
    """Ask the ranks for a trace, in the way that they opened."""
    from hangtop.session.asking import traces

    asking = await traces.find_ways(app.session, app.session.job(), SECONDS)
    if not asking.possible:

        async def told(_: Say) -> Answer:
            lines = [*asking.missing(), "", *traces.HOW_TO_ENABLE]
            return Answer("No rank can be asked for a trace", plain(lines))

        return Order("Trace the ranks", "", "", told, quiet=True)

    async def found(say: Say) -> list[RankTrace]:
        say(f"tracing for {asking.seconds:g} s, then the ranks write")
        return await traces.capture(app.session, asking)

    commands = [f"on {node}: {command}" for node, several in asking.commands().items() for command in several]
    asked = sum(not way.why for ways in asking.ways.values() for way in ways)
    where = f"{plural(asked, 'rank')} on {plural(len(asking.commands()), 'node')}"
    brief = f"{where}, the profiler runs for {SECONDS:g} s and slows them meanwhile"
    why = "\n".join(asking.missing()[:2])
    return _order(app, "Traces of the running ranks", found, brief, "\n".join(commands), why)


def _order(app: Host, title: str, found: Found, brief: str = "", command: str = "", why: str = "") -> Order:
    from hangtop.session.asking.traced import lines, traced

    async def work(say: Say) -> Answer:
        answer = traced(await found(say))
        app.session.traces = answer.seen if answer.seen.ranks else app.session.traces
        width = max(40, min(MOST, app.size.width - MARGIN))
        return Answer(title, answer_text(answer.outcome, answer.summary, toned(lines(answer, width)), answer.findings))

    return Order(title, brief, command, work, why)
