"""Nodes look less often while this machine cannot keep up, and as often as asked for once it can."""

from __future__ import annotations

from collectors.fleet.sink import LinkChange
from collectors.samples.control import Settings
from hangtop.session.node_settings import BUSY, LATE, OURS, PERIOD, ROOM, SLOWEST, NodeSettings, Pace
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.made import hello, tick


class Machine:
    """A process whose clock and CPU are turned by hand."""

    def __init__(self) -> None:
        self.now = self.used = 100.0

    def run(self, pace: Pace, *shares: float, late: float = 0.0) -> list[int]:
        """The factor after each period with these shares of a core, samples lying about for ``late`` seconds."""
        factors = []
        for share in shares:
            self.now += PERIOD
            self.used += share * PERIOD
            pace.changed(lambda: late)
            factors.append(pace.factor)
        return factors


def pace_of(machine: Machine) -> Pace:
    return Pace(lambda: machine.now, lambda: machine.used)


def test_a_session_that_keeps_up_looks_as_often_as_asked_for() -> None:
    machine = Machine()
    assert machine.run(pace_of(machine), 0.1, 0.6, BUSY - 0.01, 0.8) == [1, 1, 1, 1]


def test_a_moment_of_much_work_changes_nothing() -> None:
    machine = Machine()
    assert machine.run(pace_of(machine), 0.99, 0.5, 0.99, 0.5) == [1, 1, 1, 1]


def test_one_that_does_not_keep_up_looks_half_as_often_each_time_up_to_a_limit() -> None:
    machine = Machine()
    assert machine.run(pace_of(machine), *[0.99] * 10) == [1, 2, 2, 4, 4, 8, 8, 8, 8, 8]
    assert SLOWEST == 8


def test_it_stays_where_it_fits_and_comes_back_with_room() -> None:
    machine = Machine()
    pace = pace_of(machine)
    assert machine.run(pace, 0.99, 0.99, 0.5, ROOM + 0.01, 0.2, 0.2) == [1, 2, 2, 2, 1, 1]


def test_one_that_is_given_too_little_of_the_machine_looks_less_often_too() -> None:
    machine = Machine()
    assert machine.run(pace_of(machine), *[OURS + 0.01] * 4, late=LATE + 0.1) == [1, 2, 2, 4]


def test_a_slow_network_is_no_reason_to_look_less_often() -> None:
    machine = Machine()
    assert machine.run(pace_of(machine), *[OURS - 0.01] * 4, late=9.0) == [1, 1, 1, 1]


def test_nothing_is_measured_before_a_period_is_over() -> None:
    machine = Machine()
    pace = pace_of(machine)
    machine.now += PERIOD / 2
    machine.used += 50.0
    assert not pace.changed(lambda: 9.0)
    assert pace.share == 0.0


class Feed:
    """Remembers what it was told."""

    live = connected = True

    def __init__(self) -> None:
        self.told: list[tuple[str | None, Settings]] = []

    def settings(self, node: str | None, settings: Settings) -> None:
        self.told.append((node, settings))


def told(session: Session, feed: Feed, machine: Machine) -> NodeSettings:
    settings = NodeSettings(session.options, session.state, feed, session.now)
    settings.pace = pace_of(machine)
    return settings


def test_nodes_are_told_and_the_user_too() -> None:
    machine, feed = Machine(), Feed()
    session = Session(SessionOptions(targets=("node1",), interval=0.5))
    session.told = told(session, feed, machine)
    for _ in range(2):
        machine.now += PERIOD
        machine.used += PERIOD
        session.told.keep_pace()
    assert [(node, settings.interval) for node, settings in feed.told] == [(None, 1.0)]
    assert session.told.interval == 1.0
    assert [*session.state.changes][-1].text == "hangtop takes 100% of a core: nodes look every 1 s now"


def test_connecting_is_no_reason_to_look_less_often() -> None:
    machine, feed = Machine(), Feed()
    session = Session(SessionOptions())
    session.told = told(session, feed, machine)
    for link, factor in (("connecting", 1), ("live", 2)):
        session.link(LinkChange("node1", link, "", 1.0))  # type: ignore[arg-type]
        for _ in range(2):
            machine.now += PERIOD
            machine.used += PERIOD
            session.told.keep_pace()
        assert session.told.pace.factor == factor


def test_samples_that_lie_about_are_noticed() -> None:
    """The first tick comes at once; the later ones are read two seconds after they were sent."""
    machine, feed = Machine(), Feed()
    now = 1000.0
    session = Session(SessionOptions(), clock=lambda: now)
    session.told = told(session, feed, machine)
    session.link(LinkChange("node1", "live", "", now))
    session.samples("node1", [hello(now), tick(now)], 1)
    for late in (0.0, 2.0, 2.0):
        now += 3.0  # a stamp is never earlier than the one before, unless the node's clock is set
        machine.now += PERIOD
        machine.used += 0.5 * PERIOD
        session.samples("node1", [tick(now - late)], 1)
        session.told.keep_pace()
    expected = "hangtop takes 50% of a core, and what nodes say lies for 2.0 s: nodes look every 2 s now"
    assert [*session.state.changes][-1].text == expected
