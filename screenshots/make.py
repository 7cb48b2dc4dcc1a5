"""Makes a picture of every panel from a real run: ``python screenshots/make.py``.

Starts ``hangtop demo``'s job (real ranks over gloo, embedded SSH servers, simulated devices), opens the real screen on
it without a terminal, lets a data loader hang, and saves what the screen shows as SVG and PNG beside this file.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hangtop.demo.demo import LABEL, Demo
from hangtop.demo.options import DemoOptions
from hangtop.session.live import LiveSession
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tui.app import HangtopApp, ScreenOptions
from tui.panels.registry import PANELS

FOLDER = Path(__file__).parent
SIZE = (132, 38)
NARROW = (80, 24)
RANKS = 8
VERDICT_SECONDS = 420.0
TRAINED = 90
"""Steps after which all figures of a job that trains are there, and charts of a minute have something to show."""
AFTER = 240.0
"""Seconds of training before the data loader hangs: the pictures of a job that trains are taken in them."""
CALM = 62.0
"""Seconds without a node that comes late, on a machine that does something else: charts show the last minute."""
CALM_WITHIN = 150.0
"""Seconds after which the pictures are taken all the same."""
HEALTHY = ("overview", "ranks", "gpus", "fabric", "logs", "nodes")
"""Taken while the job trains; the others once it hangs."""


def save(app: HangtopApp, name: str) -> None:
    """Write ``name.svg`` and, where rsvg-convert is installed, ``name.png``."""
    svg = FOLDER / f"{name}.svg"
    svg.write_text(app.export_screenshot(title=f"hangtop: {name}"), encoding="utf-8")
    converter = shutil.which("rsvg-convert")
    if converter:
        # librsvg drops leading no-break spaces; plain ones that are to be preserved it keeps.
        text = svg.read_text(encoding="utf-8").replace("<text ", '<text xml:space="preserve" ').replace("&#160;", " ")
        command = [converter, "--zoom", "0.9", "-o", str(svg.with_suffix(".png"))]
        subprocess.run(command, input=text.encode(), check=True)
    else:
        print(f"{name}.png: not made, rsvg-convert is missing", file=sys.stderr)


async def shoot(theme: str) -> None:
    """Run the job, the screen and the fault, and take every picture."""
    with Demo(DemoOptions(nodes=2, ranks=RANKS, fault="dataloader", fault_rank=5, after=AFTER)) as demo:
        options = SessionOptions(targets=demo.nodes, ssh_config=demo.ssh_config, patience=8.0, label=LABEL)
        session = LiveSession(options)
        app = HangtopApp(session, ScreenOptions(theme=theme))
        async with app.run_test(size=SIZE, notifications=True) as pilot:
            await until(
                lambda: len([r for n in session.state.nodes.values() for r in n.ranks.values() if r.pulses]) == 8
            )
            await until(lambda: (session.progress.motion.last_step or 0) >= TRAINED)
            try:
                await until(lambda: session.now() - disturbed(session) > CALM, CALM_WITHIN)
            except TimeoutError:
                print("the machine is not calm: the overview shows nodes that came late", file=sys.stderr)
            while app.model.timeline.name != "1m":
                await pilot.press("left_square_bracket")
            for number, panel in enumerate(PANELS, start=1):
                if panel.name in HEALTHY:
                    await pilot.press(str(number))
                    await asyncio.sleep(1.5)
                    save(app, panel.name)
            await until(lambda: session.verdict is not None and session.verdict.outcome == "hung")
            await asyncio.sleep(2.0)
            await pilot.press("r")  # dumps for the panel of collectives: a question, then the answer
            await until(lambda: len(app.screen_stack) > 1)
            question = app.screen
            await pilot.press("y")
            await until(lambda: len(app.screen_stack) > 1 and app.screen is not question)
            await until(lambda: len(session.state.recorders) == RANKS)
            await asyncio.sleep(1.0)
            await pilot.press("escape")
            await asyncio.sleep(0.5)
            for number, panel in enumerate(PANELS, start=1):
                if panel.name not in HEALTHY:
                    await pilot.press(str(number))
                    await asyncio.sleep(2.0)
                    save(app, panel.name)
            await pilot.press("1")
            await asyncio.sleep(1.5)
            save(app, "hung")
            await pilot.press("question_mark")
            await asyncio.sleep(1.0)
            save(app, "help")
            await pilot.press("escape")
            await pilot.resize_terminal(*NARROW)
            await asyncio.sleep(1.5)
            save(app, "80x24")


def disturbed(session: Session) -> float:
    """When a node last came late, or was lost."""
    return max((change.at for kind, change in session.state.changes if kind in {"late", "lost"}), default=0.0)


async def until(true: Callable[[], bool], seconds: float = VERDICT_SECONDS) -> None:
    """Wait for a condition; raises :class:`TimeoutError`."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("the run did not come that far")
        await asyncio.sleep(0.2)


def main() -> None:
    """Read the options and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--theme", default="hangtop", help="colours of the screen")
    os.environ.update(COLORTERM="truecolor", TERM="xterm-256color")  # all colours, wherever it runs
    asyncio.run(shoot(parser.parse_args().theme))


if __name__ == "__main__":
    main()
