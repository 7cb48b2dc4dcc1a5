"""Two names of one machine: what runs there counts once, and it is said; containers beside each other are two."""

from __future__ import annotations

from hangtop.diagnosis.job import Node, Rank
from hangtop.session.job_selection import distinct_ranks
from tests.support.made import hello, process
from tests.support.screens import Paper


def sheets(*told: tuple[str, str, str, list[tuple[int, int, float]]]) -> dict[str, tuple[Node, tuple[Rank, ...]]]:
    """Nodes by name, each with its boot id, its host name, and (rank, pid, started) of what runs there."""
    return {
        name: (
            Node(name, hello=hello(boot_id=boot, hostname=host)),
            tuple(Rank(rank, name, process(rank, pid, started=started)) for rank, pid, started in ranks),
        )
        for name, boot, host, ranks in told
    }


def test_ranks_of_a_machine_with_two_names_are_there_once() -> None:
    once = distinct_ranks(
        sheets(
            ("gpu1", "b1", "gpu1", [(0, 70, 5.0), (1, 71, 5.1)]),
            ("gpu2", "b2", "gpu2", [(2, 70, 5.0), (3, 71, 5.1)]),
            ("alias", "b1", "gpu1", [(0, 70, 5.3), (1, 71, 5.4)]),
        )
    )
    assert [(rank.rank, rank.node) for rank in once.ranks] == [(0, "gpu1"), (1, "gpu1"), (2, "gpu2"), (3, "gpu2")]
    assert once.also == {"alias": "gpu1"}


def test_who_has_a_boot_id_in_common_alone_is_two() -> None:
    apart = sheets(
        ("pod0", "b1", "pod0", [(0, 7, 5.0)]),
        ("pod1", "b1", "pod1", [(0, 7, 5.0)]),  # another job's, in a container of the same machine
        ("shell0", "b1", "host", [(1, 8, 5.0)]),
        ("shell1", "b1", "host", [(2, 8, 5.0)]),
        ("shell2", "b1", "host", [(1, 8, 55.0)]),
        ("bare", "", "host", [(1, 8, 5.0)]),
    )
    once = distinct_ranks(apart)
    assert not once.also
    assert len(once.ranks) == 6


def test_what_a_second_name_tells_is_no_motion_of_its_own() -> None:
    job = Paper(nodes=1, gpus=2)
    session = job.session(ticks=1)
    Paper(nodes=1, gpus=2, names=("alias",), clock=job.clock).feed(session, 0, 0)
    for name in ("node1", "alias"):
        session.state.nodes[name].hello = hello(boot_id="b1", hostname="gpu17")
    session.diagnose()
    session.tick()
    assert session.told_by_two_names == 2
    assert sum(map(len, session.progress.tracks.values())) == 2
