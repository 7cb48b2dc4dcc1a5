"""A rank that leaves word that it makes no check is held up by nobody, not by the store either."""

from __future__ import annotations

import threading

import pytest

from hangtop.inside.checks import declining, meeting
from hangtop.inside.checks.meeting import MeetingGroup


class Mute:
    """A store whose server is stopped."""

    def set(self, key: str, value: bytes) -> None:
        threading.Event().wait(600)


def test_a_store_that_does_not_answer_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "store_of_job", Mute)
    monkeypatch.setattr(declining, "group_of", lambda _group: MeetingGroup((0, 1), 1))
    monkeypatch.setattr(declining, "SECONDS", 0.1)
    result = declining.decline("same", "it was too late", group=None, number=7)
    assert not result
    assert "the job's store does not answer" in result.summary
