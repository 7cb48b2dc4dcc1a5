"""Questions of connections appear as dialogs, one at a time, and their answers go back."""

from __future__ import annotations

import asyncio

from collectors.fleet.sink import LinkChange
from collectors.fleet.ssh.asking import Question
from tests.support.piloted import screen
from tests.support.screens import NOW, Paper

KEY = Question("node1", "host_key", "The authenticity of host node1 [/b] cannot be established", "ED25519 SHA256:abc")
SECRET = Question("node2", "passphrase", "Enter passphrase for /home/ada/.ssh/id_ed25519")
CODE = Question("node3", "keyboard", "Verification code:", "Token [bold]", secret=False)


async def test_an_unknown_host_key_is_accepted_only_on_purpose() -> None:
    async with screen() as shown:
        for key, said in (("y", "yes"), ("o", "once"), ("n", None), ("escape", None), ("enter", None)):
            answer = asyncio.ensure_future(shown.session.asker.ask(KEY))
            await shown.pilot.pause()
            assert "ED25519 SHA256:abc" in shown.text()
            assert "node1 [/b] cannot" in shown.text()
            await shown.pilot.press(key)
            assert await answer == said


async def test_a_secret_is_not_shown_while_it_is_typed() -> None:
    async with screen() as shown:
        answer = asyncio.ensure_future(shown.session.asker.ask(SECRET))
        await shown.pilot.pause()
        await shown.pilot.press("enter", *"q1?d")
        assert "q1?d" not in shown.text()
        assert len(shown.app.screen_stack) == 2
        await shown.pilot.press("enter")
        assert await answer == "q1?d"


async def test_questions_wait_for_one_another() -> None:
    async with screen() as shown:
        asked = [asyncio.ensure_future(shown.session.asker.ask(question)) for question in (SECRET, CODE)]
        await shown.pilot.pause()
        assert "passphrase" in shown.text()
        assert "Verification" not in shown.text()
        await shown.pilot.press("escape")
        await shown.pilot.pause()
        assert "Verification code:" in shown.text()
        await shown.pilot.press("1", "2")
        assert "12" in shown.text()
        await shown.pilot.press("enter")
        assert [await answer for answer in asked] == [None, "12"]


async def test_what_was_left_unanswered_can_be_asked_again() -> None:
    session = Paper().session()
    session.link(LinkChange("node2", "lost", "root@node2: the question was not answered", NOW))
    async with screen(session) as shown:
        answer = asyncio.ensure_future(session.asker.ask(SECRET))
        await shown.pilot.pause()
        await shown.press("escape")
        assert await answer is None
        assert shown.notices()[-1] == "node2: A in 6 Nodes asks again"
        await shown.press("6", "A")
        assert session.retried == []
        assert "no lost node under the cursor" in shown.notices()[-1]
        await shown.press("down", "A")
        assert session.retried == ["node2"]
        assert "connects to node2" in shown.notices()[-1]
