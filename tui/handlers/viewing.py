"""What the overview shows, and the place in the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tui.host import Host
from tui.looks.keys import shown_keys
from tui.looks.theme import Tone
from tui.panels.base import Place

if TYPE_CHECKING:
    from tui.panels.logs import LogsPanel
    from tui.panels.overview import OverviewPanel


def metric_next(app: Host) -> None:
    """Show the next figure in the heat map."""
    cast("OverviewPanel", app.panel).next_metric(1)


def metric_previous(app: Host) -> None:
    """Show the figure before."""
    cast("OverviewPanel", app.panel).next_metric(-1)


def closer(app: Host) -> None:
    """Show more of fewer nodes."""
    app.say(cast("OverviewPanel", app.panel).next_view(-1))


def farther(app: Host) -> None:
    """Show less of more nodes."""
    app.say(cast("OverviewPanel", app.panel).next_view(1))


async def show_waits(app: Host) -> None:
    """Show who waits for whom as boxes, and put the cursor there; leave it again."""
    from tui.panels.overview import WAITS_PLACE, OverviewPanel

    panel = app.panel
    if isinstance(panel, OverviewPanel) and panel.waitmap.active:
        panel.leave()
        return
    if not app.scene.waits:
        verdict = app.session.verdict
        app.say(f"nobody waits for anybody: {'no verdict yet' if verdict is None else f'the job is {verdict.outcome}'}")
    elif isinstance(panel, OverviewPanel):
        panel.show_graph(on=True)
    else:
        await app.go(Place("overview", "", (WAITS_PLACE, app.scene.waits[0].ranks[0]), WAITS_PLACE))


def show_happened(app: Host) -> None:
    """Put the cursor into what happened; leave it again."""
    panel = cast("OverviewPanel", app.panel)
    if panel.changes.active:
        panel.leave()
    else:
        panel.show_happened(on=True)


def log_follow(app: Host) -> None:
    """Follow the log."""
    _logs(app).move("last")


def log_pause(app: Host) -> None:
    """Stand still, or follow again."""
    _logs(app).pause()


def log_severity(app: Host) -> None:
    """Show less, or all again."""
    _logs(app).next_severity()


def log_fold(app: Host) -> None:
    """Show lines that are alike as one, or each alone."""
    _logs(app).fold()


def alarm_next(app: Host) -> None:
    """Go to the next warning or error."""
    if not _logs(app).go_alarm(1):
        back = shown_keys(app.options.keymap.get("log.previous", "N"))[0]
        app.say(f"no warning and no error after this line; {back} goes back to the one before")


def alarm_previous(app: Host) -> None:
    """Go to the warning or error before."""
    if not _logs(app).go_alarm(-1):
        app.say("no warning and no error before this line")


def ask_time(app: Host) -> None:
    """Ask for a time and go there."""
    from tui.dialogs.asking import LineDialog

    logs = _logs(app)

    def take(text: str | None) -> None:
        if text is not None and (wrong := logs.go_time(text)):
            app.say(wrong, "warning")

    app.push_screen(LineDialog("Go to a time", [[("02:47, 02:47:10, or an age such as 5m", Tone.DIM)]]), take)


def _logs(app: Host) -> LogsPanel:
    return cast("LogsPanel", app.panel)
