"""What nodes take each other's names for, and iperf3's answer as it prints it."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.local import Local
from collectors.probes.path.around import AROUND, ask
from collectors.probes.path.remote.iperf import parse_client
from collectors.samples.asked import Observation
from hangtop.diagnosis.measured.network import ResolvedNames, name_mismatch

ADDRESSES = {f"node{n}": f"10.0.0.{n}" for n in (1, 2, 3)}


def seen(names: dict[tuple[str, str], list[str]] | None = None, master: str = "") -> ResolvedNames:
    """Three nodes that agree, but for what is given by (node, name)."""
    answers: dict[str, list[Observation]] = {}
    for node in ADDRESSES:
        answers[node] = [Observation("own_name", node, True, "")]
        for name, right in ADDRESSES.items():
            found = (names or {}).get((node, name), [right])
            answers[node].append(Observation("resolve", name, list(found), "" if found else "Name not known"))
    held = {node: frozenset((address, "127.0.0.1")) for node, address in ADDRESSES.items()}
    return ResolvedNames(answers, held, master)


def told(found: ResolvedNames) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(f.kind, f.severity, f.nodes) for f in name_mismatch(found)]


def test_nodes_that_agree_accuse_nobody() -> None:
    assert told(seen(master="node1")) == []


def test_a_peer_that_is_taken_for_oneself() -> None:
    loop = {("node3", "node1"): ["127.0.1.1"]}
    assert told(seen(loop)) == [("name_mismatch", "warning", ("node3",))]
    assert told(seen(loop, master="node1")) == [("name_mismatch", "critical", ("node3",))]
    (finding,) = name_mismatch(seen(loop))
    assert "node3 takes it for itself (127.0.1.1)" in finding.summary


def answered(said: str) -> None:
    """iperf3's answer has a rate or an error, never both."""
    version, rate, _, error = parse_client(said)
    assert version
    assert rate is None or not error


@given(st.text(max_size=200))
def test_whatever_the_tools_print_is_survived(said: str) -> None:
    answered(said)


async def test_a_node_answers_about_names_and_tools() -> None:
    answers = await ask(Local("here"), sys.executable, AROUND, {"names": ["localhost"]})
    found = {(one.name, one.subject): one for one in answers}
    resolved = found["resolve", "localhost"].value
    assert isinstance(resolved, list)
    assert "127.0.0.1" in resolved or "::1" in resolved
    assert ("tool", "iperf3") in found
