"""The job's own sources of evidence, one by one: why each is missing, and when it is not."""

from __future__ import annotations

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.evidence.sources import EvidenceSource, evidence_sources
from hangtop.diagnosis.job import Job, Rank
from tests.support.made import process, stack


def rungs(
    *environments: dict[str, str],
    nccl: str = "2.32.3",
    stacks: tuple[StackDump, ...] = (),
    fault: str = "",
) -> dict[str, EvidenceSource]:
    ranks = tuple(
        Rank(
            number,
            "node1",
            process(number, env=env, versions={"nccl": nccl} if nccl else {}),
        )
        for number, env in enumerate(environments)
    )
    made = Job(now=1.0, watched=1.0, live=True, ranks=ranks, stacks=stacks, stack_nodes=("node1",) * len(stacks))
    return {source.name: source for source in evidence_sources(made, fault)}


def test_every_rung_that_is_missing_says_why_and_what_would_help() -> None:
    found = rungs({}, {})
    assert len(found) == 3
    assert all(rung.text for rung in found.values())
    assert all(rung.how or rung.name == "NCCL's RAS" for rung in found.values() if rung.state == "missing")
    assert found["flight recorder"].state == "missing"
    assert "2.32.3 was not asked" in found["NCCL's RAS"].text


def test_what_is_there_is_not_called_missing() -> None:
    found = rungs({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/tmp/p"}, {})
    text = "1 of 2 ranks can be asked by a pipe"
    assert found["flight recorder"] == EvidenceSource("flight recorder", "there", text, "r on the screen")
    assert rungs({}, stacks=(stack(1000, "f", method="native"),))["native stacks"].state == "told"


def test_a_refusal_is_the_reason() -> None:
    refused = stack(1000, threads=[], error="denied: Operation not permitted", way_out="connect as root")
    found = rungs({}, stacks=(refused,), fault="node1: the RAS socket localhost:28028: Connection refused")
    assert (found["native stacks"].text, found["native stacks"].how) == (refused.error, "connect as root")
    assert found["NCCL's RAS"].text.endswith("Connection refused")
    assert rungs({"NCCL_RAS_ENABLE": "0"})["NCCL's RAS"].text == "NCCL_RAS_ENABLE=0 is set"
    assert rungs({}, nccl="")["NCCL's RAS"].text == "no NCCL is loaded whose version is known"


def test_without_a_rank_there_is_no_evidence_sources() -> None:
    assert rungs() == {}
