"""Whatever a node sends is shown as text: no markup, no escape sequence, no crash, no broken line."""

from __future__ import annotations

from rich.cells import cell_len

from collectors.fleet.sink import LinkChange
from collectors.samples.gpus import GpuFault
from collectors.samples.logs import LogEvent
from collectors.samples.stream import SourceState
from hangtop.diagnosis.finding import Evidence, Finding, Observer, Unknown, Verdict
from tests.support.made import process, pulse
from tests.support.piloted import Screen, screen
from tests.support.screens import NOW, PID, Paper, PaperSession, say
from tui.panels.registry import PANELS

NASTY = "[/markup][bold red]x[/] \x1b[2J\x1b]0;gone\x07\x9b31m \u202edrawkcab 日本語テ e\u0301\u0301 👩‍👩‍👧 \x00"

KEYS = [str(number) for number in range(1, len(PANELS) + 1)]


def poisoned(text: str, paper: Paper | None = None) -> PaperSession:
    """A session in which everything that a node can say says this."""
    paper = paper or Paper(nodes=2, gpus=2, names=(f"a{text}", f"b{text}"))
    session = paper.session(ticks=2)
    node = paper.name(0)
    rank = process(
        7, PID + 7, command=text, cwd=text, user=text, stdout=text, master_addr=text, env={"NCCL_X": text},
        versions={text: text}, launcher=text, container=text,
    )  # fmt: skip
    session.samples(
        node,
        [
            rank, pulse(PID + 7, wchan=text, state="?"),
            SourceState("gpus", "failed", text, NOW), GpuFault(0, "", text),
            LogEvent("python.exception", NOW, 7, text, PID + 7, text, 3, text, {}),
        ],
    )  # fmt: skip
    session.link(LinkChange(paper.name(1), "lost", text, NOW))
    session.bad_line(node, text, text)
    say(session, node, 0, NOW, text, text)
    finding = Finding(
        "rank_crashed",
        "critical",
        0.5,
        text,
        (7,),
        (node,),
        evidence=(Evidence(Observer.LOG, text, NOW, text),),
        advice=text,
    )
    session.verdict = Verdict("crashed", text, (finding,), (Unknown(text, (node,), text),))
    return session


async def look_everywhere(shown: Screen) -> None:
    """Every panel, and the details of what is under its cursor."""
    dialogs = 0
    for panel in KEYS:
        for key in (panel, "i"):
            await shown.press(key)
            lines = shown.lines()
            assert all(line.isprintable() for line in lines)
            # strip by strip: of a whole line Rich counts some marks that stand over a letter otherwise
            strips = shown.app.screen._compositor.render_strips()
            assert {sum(cell_len(segment.text) for segment in strip) for strip in strips} == {shown.app.size.width}
        assert f"{panel}[" in lines[1] or len(shown.app.screen_stack) > 1
        dialogs += len(shown.app.screen_stack) > 1
        await shown.press("escape")
        assert len(shown.app.screen_stack) == 1
    assert dialogs >= 5


async def test_text_of_every_kind_is_only_text_on_every_panel() -> None:
    async with screen(poisoned(NASTY), size=(90, 30)) as shown:
        await look_everywhere(shown)
        await shown.press("2")
        assert "[/markup][bold red]x[/]" in shown.text()


async def test_messages_are_no_markup() -> None:
    async with screen() as shown:
        shown.app.say("node1: [/opt/x] \x1b[31m failed", "error")
        await shown.pilot.pause(0.1)
        assert "node1: [/opt/x] ·[31m failed" in shown.notices()
        assert "[/opt/x]" in shown.text()
