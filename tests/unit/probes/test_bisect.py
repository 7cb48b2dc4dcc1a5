"""Which pairs are measured: few enough to be quick, enough to tell a bad node from a bad link."""

from __future__ import annotations

import asyncio

import pytest

from collectors.probes.allreduce.bisect import Bisection
from collectors.samples.probes import ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.measured.probes import findings

GOOD, SLOW = 1.0, 0.1


class Network:
    """Pairs on paper; remembers what was measured, in which company."""

    def __init__(self, bad: dict[frozenset[str], float | None]) -> None:
        self.bad = bad
        self.measured: list[tuple[str, str]] = []
        self.busy: set[str] = set()

    async def measure(self, a: str, b: str) -> ProbePair:
        assert not self.busy & {a, b}, "a node in two pairs at once"
        self.busy |= {a, b}
        await asyncio.sleep(0)
        self.busy -= {a, b}
        self.measured.append((a, b))
        speed = next((s for names, s in self.bad.items() if names <= {a, b}), GOOD)
        return ProbePair(a, b, speed, 1e-4, 0.0, "" if speed is not None else "did not meet")


def nodes(count: int) -> tuple[str, ...]:
    return tuple(f"node{number}" for number in range(1, count + 1))


def bisect(count: int, bad: dict[frozenset[str], float | None]) -> tuple[Bisection, Network]:
    network = Network(bad)
    bisection = Bisection(network.measure)
    asyncio.run(bisection.run(nodes(count)))
    return bisection, network


def named(count: int, bisection: Bisection) -> list[tuple[str, tuple[str, ...]]]:
    ranks = [ProbeRank(i, name, "done", "", 1.0) for i, name in enumerate(nodes(count))]
    pairs = sorted(bisection.pairs.values())
    report = ProbeReport("gloo", count, 0.0, 1.0, "done", "", ranks, [], pairs, None, {})
    return [(finding.kind, finding.nodes) for finding in findings(report)]


@pytest.mark.parametrize("count", [3, 4, 8, 9, 12, 33])
def test_good_networks_accuse_nobody(count: int) -> None:
    bisection, _ = bisect(count, {})
    assert named(count, bisection) == []


@pytest.mark.parametrize("count", [3, 4, 8, 9, 12, 33])
@pytest.mark.parametrize(("speed", "kind"), [(None, "path_blocked"), (SLOW, "slow_node")])
@pytest.mark.parametrize("name", ["node1", "node2", "node3"])
def test_a_bad_node_stands_alone(count: int, speed: float | None, kind: str, name: str) -> None:
    bisection, _ = bisect(count, {frozenset((name,)): speed})
    assert named(count, bisection) == [(kind, (name,))]


@pytest.mark.parametrize("count", [3, 4, 8, 12])
@pytest.mark.parametrize(("speed", "kind"), [(None, "path_blocked"), (SLOW, "slow_link")])
def test_a_bad_link_is_told_from_its_nodes(count: int, speed: float | None, kind: str) -> None:
    bisection, _ = bisect(count, {frozenset(("node1", "node2")): speed})
    assert named(count, bisection) == [(kind, ("node1", "node2"))]


def test_many_nodes_are_told_apart_by_few_pairs_unless_every_pair_is_wanted() -> None:
    _, network = bisect(33, {frozenset(("node4",)): None})
    assert len(network.measured) <= 33 + 6
    every = Network({})
    asyncio.run(Bisection(every.measure).run(nodes(33), every=True))
    assert len(every.measured) == 33 * 32 / 2
