"""What is said of files in which nothing is wrong, or not enough."""

from __future__ import annotations

from dataclasses import replace

from collectors.samples.collectives import RasCommunicator, RasRank, RasReport
from hangtop.diagnosis.series import Timed
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, READING, Sketch, after


def destroyed(*ranks: int, size: int = 4) -> Sketch:
    job = after()
    for rank in range(4):
        job.says("nccl.init", rank, ago=99, phase="start", comm_id="0xa", group_rank=rank, size=size)
        job.says("nccl.init", rank, ago=98, phase="complete", comm_id="0xa", group_rank=rank, size=size)
    for rank in ranks:
        job.says("nccl.end", rank, ago=9, phase="destroy", comm_id="0xa", group_rank=rank, size=size)
    return job


def test_a_finished_run_in_which_nothing_is_wrong() -> None:
    verdict = after().says("job.finished", 0, ago=9).verdict()
    assert (verdict.outcome, verdict.summary) == (
        "healthy",
        "the run ended well, and nothing is wrong in what was read",
    )
    assert destroyed(0, 1, 2, 3).verdict().outcome == "healthy"


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


def ras_report(*counts: int) -> RasReport:
    members = [RasRank(rank, "n1", 9 + rank, {"AllGather": count}) for rank, count in enumerate(counts)]
    return RasReport(1.0, [RasCommunicator("0xa", 4, members, ok=False)])


def test_one_saved_answer_of_ras_names_the_few_that_are_behind_as_possible() -> None:
    job = after()
    job.ras.append(Timed(1.0, ras_report(641, 640, 641, 641)))
    (finding,) = job.verdict().findings
    assert (finding.kind, finding.ranks, finding.certainty) == ("collective_mismatch", (1,), "possible")


def test_one_answer_of_ras_in_which_one_rank_is_ahead_proves_nothing() -> None:
    report = ras_report(640, 641, 640, 640)
    job = after()
    job.ras.append(Timed(1.0, report))
    verdict = job.verdict()
    assert (verdict.outcome, verdict.findings) == ("unknown", ())
    job.ras.append(Timed(2.0, report))
    job.ras.append(Timed(3.0, report))
    assert [finding.kind for finding in job.verdict().findings] == ["collective_mismatch"]


def test_who_named_no_node_is_told_how_others_are_watched() -> None:
    sketch = Sketch(world=0)
    sketch.by_number.clear()
    job = sketch.node("node1").job()
    assert "hangtop NODE" not in diagnose(job).summary
    said = diagnose(replace(job, unasked=True)).summary
    assert said.startswith("no rank runs on this machine (for others: hangtop NODE…, hangtop --slurm JOBID)")
