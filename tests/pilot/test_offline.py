"""Recordings and files are shown as what they are: nobody is asked, nothing is live, nothing follows."""

from __future__ import annotations

from tests.support.piloted import screen
from tests.support.screens import Paper, PaperSession, hung


class Recorded(PaperSession):
    """A session whose nodes cannot be asked, as a recording's."""

    @property
    def can_act(self) -> bool:
        return False


def recorded() -> PaperSession:
    paper = Paper(slow=11, label="REPLAY job.hangtop", read_only=True)
    live = paper.session()
    session = Recorded(live.options, live.clock)
    for index in range(paper.nodes):
        paper.feed(session, index, 0)
    session.verdict = hung()
    return session


async def test_in_a_recording_no_key_asks_a_node_and_the_reason_is_the_true_one() -> None:
    session = recorded()
    async with screen(session) as shown:
        await shown.press("2")
        assert "read-only" not in shown.lines()[0]
        assert shown.lines()[0].rstrip().endswith("REPLAY job.hangtop")
        footer = shown.lines()[-1]
        assert "Details" in footer
        assert "Dump" not in footer
        assert "Shell" not in footer
        for key in ("d", "D", "ctrl+n", "r", "K", "exclamation_mark"):
            await shown.press(key)
            assert "this shows what was recorded; no node can be asked" in shown.notices()[-1], key
            assert "--read-only" not in shown.notices()[-1]
        assert session.dumped == []


async def test_a_recording_opens_on_its_findings_and_says_where_nothing_was_known() -> None:
    async with screen(recorded()) as shown:
        assert "[Findings" in shown.lines()[1]
        for key in ("8", "9"):
            await shown.press(key)
            assert "nothing of this was known at this moment" in shown.text()
            assert "r asks for" not in shown.text()
