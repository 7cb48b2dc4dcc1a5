"""Pauses that a job takes are learned by place, and forgotten in time."""

from __future__ import annotations

import pytest

from hangtop.session.motion.pauses import HALF_LIFE, Pauses
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.pulses import Job, sleeps, spins, works


def test_a_pause_fades() -> None:
    pauses = Pauses()
    assert pauses.usual("", 0.0) is None
    pauses.learn("", 600.0, 0.0)
    assert pauses.usual("", 0.0) == 600.0
    assert pauses.usual("", HALF_LIFE) == 300.0
    pauses.learn("", 60.0, 4 * HALF_LIFE)
    assert pauses.usual("", 4 * HALF_LIFE) == 60.0


def test_a_pause_is_usual_where_it_was_taken() -> None:
    pauses = Pauses()
    pauses.learn("compile", 600.0, 0.0)
    pauses.learn("evaluate", 40.0, 0.0)
    assert (pauses.usual("compile", 0.0), pauses.usual("evaluate", 0.0)) == (600.0, 40.0)
    assert pauses.usual("train_step", 0.0) is None
    assert pauses.usual("", 0.0) == 600.0


def test_coming_back_from_what_was_called_a_hang_is_usual_from_the_second_time_on() -> None:
    pauses = Pauses()
    pauses.came_back("read", 20.0, 0.0)
    assert pauses.usual("read", 0.0) is None
    pauses.came_back("save", 90.0, 30.0)
    assert pauses.usual("save", 30.0) is None, "that was elsewhere"
    pauses.came_back("read", 25.0, 60.0)
    assert pauses.usual("read", 60.0) == 20.0
    pauses.came_back("save", 90.0, 30.0 + 2 * HALF_LIFE)
    assert pauses.usual("save", 30.0 + 2 * HALF_LIFE) is None, "nobody remembers the first time"


def test_a_pause_at_one_place_is_not_usual_at_another() -> None:
    job = Job()
    job.run(5, works)
    job.progress.place = "compile"
    job.run(300, spins)
    job.run(2, works)
    job.progress.place = "train_step"
    job.run(1, sleeps)
    assert job.progress.usual_pause is None
    job.progress.place = "compile"
    assert job.progress.usual_pause == pytest.approx(300, abs=2)


def test_the_alarm_of_a_session_stays_within_half_of_the_time_out() -> None:
    session = Session(SessionOptions(patience=20.0))
    session.progress._pauses.learn("", 900.0, 0.0)
    assert session.alarm_after == 300.0
    assert session.job().alarm_after == 300.0
