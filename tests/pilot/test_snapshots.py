"""Pictures that a change cannot alter unseen: look at the report, then `pytest --snapshot-update`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from tests.support.screens import Paper, PaperSession, hung
from tui.app import HangtopApp, ScreenOptions

WIDE = (120, 32)
NARROW = (80, 24)

SnapCompare = Callable[..., bool]


def stuck_job() -> PaperSession:
    """Rank 11 in its reader, 31 wait for it; stacks were taken four seconds ago."""
    paper = Paper(slow=11, label="DEMO · simulated devices")
    session = paper.session()
    session.verdict = hung()
    for node, dump in paper.stacks():
        session.stacks(node, [dump])
    return session


async def drawn(pilot: Pilot[None]) -> None:
    """One tick more, so that what the keys asked for is on the picture."""
    app = pilot.app
    assert isinstance(app, HangtopApp)
    await pilot.pause()
    app.tick()
    await pilot.pause()


@pytest.mark.parametrize(
    ("keys", "size"),
    [
        pytest.param("1", WIDE, id="overview"),
        pytest.param("1", NARROW, id="overview-80x24"),
        pytest.param("2", WIDE, id="ranks"),
        pytest.param("7", WIDE, id="findings"),
    ],
)
def test_a_hung_job_looks_as_it_did(snap_compare: SnapCompare, keys: str, size: tuple[int, int]) -> None:
    app = HangtopApp(stuck_job(), ScreenOptions(theme="hangtop"))
    assert snap_compare(app, press=keys.split(), terminal_size=size, run_before=drawn)
