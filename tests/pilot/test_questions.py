"""An unknown host key is a dialog, one at a time, and its answer goes back."""

from __future__ import annotations

import asyncio

from collectors.fleet.sink import HostKeyQuestion, LinkChange
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper

KEY = HostKeyQuestion("node1", "node1 [/b]", "ssh-ed25519 SHA256:abc")


async def test_an_unknown_host_key_is_accepted_only_on_purpose() -> None:
    async with screen() as shown:
        for key, said in (("y", True), ("n", False), ("escape", False), ("enter", False)):
            answer = asyncio.ensure_future(shown.session.ask(KEY))
            await shown.pilot.pause()
            assert "ssh-ed25519 SHA256:abc" in shown.text()
            assert "node1 [/b] is in no known_hosts file" in shown.text()
            await shown.pilot.press(key)
            assert await answer is said


async def test_a_key_that_was_refused_can_be_asked_about_again() -> None:
    session = Paper().session()
    session.link(LinkChange("node2", "lost", "node2: its host key was not accepted", NOW))
    async with screen(session) as shown:
        answer = asyncio.ensure_future(session.ask(HostKeyQuestion("node2", "node2", "ssh-ed25519 SHA256:abc")))
        await shown.pilot.pause()
        await shown.press("escape")
        assert await answer is False
        assert shown.notices()[-1] == "node2: A in 6 Nodes asks again"
        await shown.press("6", "A")
        assert session.retried == []
        assert "no lost node under the cursor" in shown.notices()[-1]
        await shown.press("down", "A")
        assert session.retried == ["node2"]
        assert "connects to node2" in shown.notices()[-1]
