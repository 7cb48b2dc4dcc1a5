"""The history of a job: figures by the second for a day, and verdicts as they change."""

from __future__ import annotations

from hangtop.diagnosis.finding import Finding, Verdict
from hangtop.session.history import DAY, HOUR, VERDICTS, History, Series, Span


def test_a_stretch_is_mean_and_most_of_its_seconds_and_a_day_is_kept() -> None:
    series, seconds = Series(), DAY + 2 * HOUR
    for second in range(seconds):
        series.add(5e8 + second, second)
    end = 5e8 + seconds
    assert series.spans(end - 3, 1, 3) == [Span(seconds - 3 + x, seconds - 3 + x) for x in range(3)]
    assert series.spans(end - 60, 60, 1) == [Span(seconds - 30.5, seconds - 1.0)]
    assert series.at(5e8 + 2 * HOUR) == 2 * HOUR
    assert series.at(5e8) is None
    series.add(end + 10 * DAY, 7.0)
    assert (series.at(end + 10 * DAY), series.at(end - 1)) == (7.0, None)


def test_a_pause_of_looking_is_a_gap_and_a_late_look_is_none() -> None:
    series = Series()
    series.add(100.0, 5.0)
    series.add(103.0, 7.0)
    series.add(120.0, 7.0)
    seen = [None if span is None else span.mean for span in series.spans(100.0, 1, 21)]
    assert seen == [*[5.0] * 3, *[7.0] * 5, *[None] * 12, 7.0]


def test_verdicts_are_kept_as_they_change() -> None:
    def told(second: int) -> Verdict:
        kind = "a" if second < 100 else "b"
        return Verdict("hung", f"{kind} since {second} s", (Finding(kind, "critical", 0.9, kind),))

    history = History()
    for second in range(300):
        history.judged(float(second), told(second))
    assert [at for at, _ in history.verdicts] == [0, 60, 100, 160, 220, 280]
    assert [history.verdict_at(at) for at in (-1.0, 99.5, 100.0)] == [None, told(60), told(100)]
    for second in range(300, 300 + 60 * 2 * VERDICTS, 60):
        history.judged(float(second), told(second))
    assert len(history.verdicts) == VERDICTS
