"""A question as it is written onto a page: who is asked for a group, and who cannot be."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from collectors.probes.inside.remote import question as asking
from collectors.probes.inside.remote.question import withdraw, write
from collectors.samples import page as layout
from hangtop.inside.page import OwnRank, Page


@pytest.fixture
def page() -> Iterator[Page]:
    made = Page(OwnRank(0, 4, 0))
    yield made
    made.close()


def test_the_group_is_written_beside_the_question(page: Page) -> None:
    group = layout.group_number([0, 2])
    assert write(os.getpid(), 77, "same", 120, 30.0, group).written
    question = page.question()
    assert question is not None
    assert question == (77, "same", 120, 30.0, group)
    page.take(77)
    assert write(os.getpid(), 78, "same", 120, 30.0).written
    question = page.question()
    assert question is not None
    assert question.group == 0, "all ranks are asked, whatever group was before"


def test_a_job_that_knows_no_groups_yet_is_not_asked_for_one(page: Page) -> None:
    page.words[layout.VERSION_WORD] = 1
    done = write(os.getpid(), 77, "same", 120, 30.0, layout.group_number([0, 2]))
    assert (done.written, done.why) == (False, "its hangtop.inside is older than this one and knows no groups")
    assert page.question() is None
    assert write(os.getpid(), 78, "same", 120, 30.0).written


def test_a_question_that_waits_for_its_step_is_not_written_over(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    assert write(os.getpid(), 77, "same", 120, 30.0).written
    done = write(os.getpid(), 78, "barrier", 122, 30.0, layout.group_number([0, 2]))
    assert (done.written, done.why.partition(":")[0]) == (False, "another question waits there for its step")
    question = page.question()
    assert question is not None
    assert question == (77, "same", 120, 30.0, 0)
    monkeypatch.setattr(asking, "WAITS", 0.0)
    assert write(os.getpid(), 79, "barrier", 10, 30.0).written, "a step that does not come blocks nobody"


def test_a_question_is_taken_back_unless_it_is_anothers(page: Page) -> None:
    assert write(os.getpid(), 77, "same", 120, 30.0).written
    assert not withdraw(os.getpid(), 76).written
    assert page.question() is not None
    assert withdraw(os.getpid(), 77).written
    assert page.question() is None
    assert not withdraw(os.getpid(), 77).written
