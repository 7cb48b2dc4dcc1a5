"""One hang rings once; the notification is an escape sequence that nothing can break out of."""

from __future__ import annotations

from hangtop.diagnosis.finding import Finding, Verdict
from tui.alarm import Alarm, notification


def verdict(outcome: str, *ranks: int) -> Verdict:
    found = (Finding("rank_stuck_in_data", "critical", 0.9, "s", ranks=ranks),) if ranks else ()
    return Verdict(outcome, "rank 3 \x1b]0;x\x07 holds up", found)  # type: ignore[arg-type]


def test_a_new_hang_is_news_once() -> None:
    alarm = Alarm()
    assert alarm.news(None) == ""
    assert alarm.news(verdict("healthy")) == ""
    assert alarm.news(verdict("hung", 3)).startswith("hung: rank 3")
    assert alarm.news(verdict("hung", 3)) == ""


def test_another_culprit_is_news_and_so_is_the_same_after_the_job_moved() -> None:
    alarm = Alarm()
    alarm.news(verdict("hung", 3))
    assert alarm.news(verdict("hung", 5))
    assert not alarm.news(verdict("unknown"))
    assert not alarm.news(verdict("hung", 5))
    alarm.news(verdict("healthy"))
    assert alarm.news(verdict("hung", 5))


def test_broken_hardware_under_a_job_that_moves_is_told_too() -> None:
    assert Alarm().news(verdict("at_risk", 3)).startswith("at risk: rank 3")


def test_slow_is_no_alarm() -> None:
    assert Alarm().news(verdict("slow", 3)) == ""


def test_the_notification_fits_the_terminal() -> None:
    text = Alarm().news(verdict("hung", 3))
    assert notification(text, {}).count("\x1b") == 1
    assert notification("a;b", {"TERM": "foot"}) == "\x1b]777;notify;hangtop;a,b\x07"
    assert notification("a", {"TMUX": "/tmp/x"}) == "\x1bPtmux;\x1b\x1b]9;hangtop, a\x07\x1b\\"
