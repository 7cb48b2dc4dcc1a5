"""Going about: panels, cursor, in and back, filter, copies; and what keys change in one panel alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from hangtop.diagnosis.phrasing import count, folded
from tui.handlers.ask import ActionRefused
from tui.panels.base import Place
from tui.widgets.lines import text_of

if TYPE_CHECKING:
    from hangtop.diagnosis.finding import WaitBox
    from tui.app import HangtopApp
    from tui.panels.table_panel import TablePanel
    from tui.view_model import ViewModel
    from tui.widgets.table import Table


def opens(name: str) -> Callable[[HangtopApp], object]:
    """Make the handler that opens a panel by its name."""

    async def run(app: HangtopApp) -> None:
        await app.switcher.open(name)
        app.tick()

    return run


def in_panel(method: str, *args: Any) -> Callable[[HangtopApp], object]:
    """Make the handler of what a panel does by itself; what it returns is said.

    By name: a panel's module is imported when the panel is first opened.
    """

    def run(app: HangtopApp) -> None:
        if isinstance(told := getattr(app.panel, method)(*args), str) and told:
            app.say(told)

    return run


def on_table(does: Callable[[Table[Any]], object]) -> Callable[[HangtopApp], object]:
    """Make the handler of what a table can do."""
    return lambda app: does(cast("TablePanel[Any]", app.panel).table)  # its key is alive there alone


async def enter(app: HangtopApp) -> None:
    """Go into what is under the cursor."""
    if (place := app.panel.enter()) is not None:
        await app.go(place)


async def back(app: HangtopApp) -> None:
    """Take the filter away, or go back."""
    if await app.switcher.back():
        app.tick()


def show_details(app: HangtopApp) -> None:
    """Show everything that is known of what is under the cursor."""
    from tui.dialogs.base import TextDialog
    from tui.panels.facts import facts_text

    chosen = app.panel.selection()
    if chosen.facts:
        app.push_screen(TextDialog(chosen.title, facts_text(chosen.facts)))


def show_waits(app: HangtopApp) -> None:
    """List which ranks wait for which; Enter goes to what a line stands for."""
    from tui.dialogs.asking import ChoiceDialog
    from tui.texts.findings import wait_tree

    boxes = app.model.waits
    if not boxes:
        verdict = app.session.verdict
        why = "no verdict yet" if verdict is None else f"the job is {verdict.outcome}"
        raise ActionRefused(f"no rank waits for another: {why}")
    tree = wait_tree(boxes)

    def take(place: int | None) -> None:
        if place is not None:
            app.run_worker(app.go(_behind(boxes[tree[place][0]], app.model)), name="go", exit_on_error=False)

    app.push_screen(ChoiceDialog("Which ranks wait for which", [(text_of([line]), "") for _, line in tree]), take)


def _behind(box: WaitBox, model: ViewModel) -> Place:
    """Ranks that wait in an operation that a source names lead to its group, others to a stack that was taken."""
    ranks, state = sorted(box.ranks), model.state
    told = " " in box.operation  # with its number or its group: of a bare one frames alone tell
    if told and not box.blamed and (state.recorders or state.progress or state.ras):
        return Place("collectives", "", ranks[0])
    if dumped := [rank for rank in ranks if rank in model.dumped]:
        return Place("stacks", "", dumped[0])
    return Place("ranks", f"rank={folded(ranks)}", ranks[0])


async def ask_filter(app: HangtopApp) -> None:
    """Open the filter's line."""
    from tui.panels.filterline import FilterLine

    await app.screen.query(FilterLine).remove()  # one that is just being left, or was just opened
    await app.screen.mount(FilterLine(app.panel), before="#footer")


def copy(app: HangtopApp) -> None:
    """Copy what is looked at: the panel's own text, else the details of what is under the cursor."""
    chosen = app.panel.selection()
    facts = (f"{label}: {value}" if label else f"  {value}" for label, value in chosen.facts)
    text = chosen.text or "\n".join(filter(None, [chosen.title, *facts]))
    if not text:
        raise ActionRefused("nothing here to copy")
    app.copy_to_clipboard(text)
    app.say(f"{count(text.count(chr(10)) + 1, 'line')} copied")
