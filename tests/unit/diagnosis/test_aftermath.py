"""What is said of files in which nothing is wrong, or not enough."""

from __future__ import annotations

from dataclasses import replace

from collectors.samples.collectives import RasCommunicator, RasRank, RasReport
from hangtop.diagnosis.series import Timed
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, READING, Sketch, after


def test_a_finished_run_in_which_nothing_is_wrong() -> None:
    verdict = after().says("job.finished", 0, ago=9).verdict()
    assert (verdict.outcome, verdict.summary) == (
        "healthy",
        "the run ended well, and nothing is wrong in what was read",
    )
    job = after()
    for rank in range(4):
        for kind, ago, phase in (("init", 99, "start"), ("init", 98, "complete"), ("end", 9, "destroy")):
            job.says(f"nccl.{kind}", rank, ago=ago, phase=phase, comm_id="0xa", group_rank=rank, size=4)
    assert job.verdict().outcome == "healthy"


def test_nothing_known_is_nothing_to_judge() -> None:
    assert "nothing to judge" in after().says("log.end", None, ago=9, lines=3).verdict().summary


def test_one_saved_look_at_all_ranks_is_enough_after_the_fact() -> None:
    job = Sketch(live=False, looks=1)
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(READING)
    assert (job.verdict().outcome, job.verdict().findings[0].ranks) == ("hung", (3,))
    live = Sketch(looks=1, span=0.0, watched=0.0)
    live.ranks(0, 1, 2).at(ALL_REDUCE)
    live.ranks(3).at(READING)
    assert live.verdict().outcome != "hung"


def test_one_answer_of_ras_in_which_one_rank_is_ahead_proves_nothing() -> None:
    members = [RasRank(rank, "n1", 9 + rank, {"AllGather": 641 if rank == 1 else 640}) for rank in range(4)]
    report = RasReport(1.0, [RasCommunicator("0xa", 4, members, ok=False)])
    job = after()
    job.ras.append(Timed(1.0, report))
    verdict = job.verdict()
    assert (verdict.outcome, verdict.findings) == ("unknown", ())
    job.ras += [Timed(2.0, report), Timed(3.0, report)]
    assert [finding.kind for finding in job.verdict().findings] == ["collective_mismatch"]


def test_who_named_no_node_is_told_how_others_are_watched() -> None:
    sketch = Sketch(world=0)
    sketch.by_number.clear()
    job = sketch.node("node1").job()
    assert "hangtop NODE" not in diagnose(job).summary
    said = diagnose(replace(job, unasked=True)).summary
    assert said.startswith("no rank runs on this machine (for others: hangtop NODE…, hangtop --slurm JOBID)")
