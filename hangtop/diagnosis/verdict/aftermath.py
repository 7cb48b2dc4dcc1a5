"""What files of a run that is over say when nothing is wrong in them, or when they do not say enough."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hangtop.diagnosis.evidence.event_fields import number_of, text_of
from hangtop.diagnosis.evidence.events import warned
from hangtop.diagnosis.finding import Outcome, Unknown
from hangtop.diagnosis.groups.ras import POLLS
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.phrasing import count, duration, listed, rank_text, ranks_text
from hangtop.diagnosis.waits.job_status import JobStatus

OF_THE_ENDED = (
    "elastic.closing",
    "elastic.unkillable",
    "launcher.killed",
    "torch.taken_down",
    "torch.dump_signal",
    "jax.victim",
)
"""Words about processes that end because others did."""
FINISHED = ("elastic.finished", "job.finished")


def finished(job: Job) -> bool:
    """The run came to its end.

    A launcher or the script says so, a table of nccl-tests has its last line, or all ranks destroyed the largest
    communicator.
    """
    if any(event.kind in FINISHED for event in job.events):
        return True
    if any(event.kind == "nccl_tests.table" and event.data.get("whole") is True for event in job.events):
        return True
    destroyed: dict[str, set[int]] = defaultdict(set)
    sizes: dict[str, int] = {}
    for event in job.events:
        comm, size = text_of(event, "comm_id"), number_of(event, "size")
        if not comm or size is None or not event.kind.startswith("nccl."):
            continue
        sizes[comm] = size
        rank = number_of(event, "group_rank")
        if event.kind == "nccl.end" and text_of(event, "phase") == "destroy" and rank is not None:
            destroyed[comm].add(rank)
    largest = max(sizes.values(), default=0)
    return any(largest > 1 and sizes[comm] == largest == len(ranks) for comm, ranks in destroyed.items())


def last_words(job: Job) -> str:
    """How the log that was written last ends, and when that was; empty where none is known to have ended."""
    ends = [event for event in job.events if event.kind == "log.end" and event.at is not None and event.text]
    if not ends:
        return ""
    end = max(ends, key=lambda event: (event.at or 0.0, event.source))
    return f"the last log ended {duration(max(0.0, job.now - (end.at or 0.0)))} ago: “{end.text[:120]}” ({end.source})"


def summary(job_status: JobStatus, outcome: Outcome) -> str:
    """One line where no finding speaks; with what the run outlived."""
    return _quiet(job_status, outcome) + _outlived(job_status.job)


def _outlived(job: Job) -> str:
    """The last fault after which the run went on, and how many there were."""
    told = [event for event in job.passed if event.data.get("consequence") is not True]
    if not told:
        return ""
    last = told[-1]
    words = last.text.strip().rpartition("\n")[2].strip() or last.kind
    others = f", and {count(len(told) - 1, 'other')} before" if len(told) > 1 else ""
    return f"; what the run outlived: “{words[:120]}” ({last.source}:{last.line}){others}"


def _quiet(job_status: JobStatus, outcome: Outcome) -> str:
    job = job_status.job
    if outcome == "healthy":
        return "the run ended well, and nothing is wrong in what was read"
    looks = [status for status in job_status.read if status.activity]
    devices = any(node.gpus or node.ports for node in job.nodes.values())
    if not (job.recorders or job.ras or looks or job.progress or devices or _says_something(job)):
        return "nothing to judge: nothing that is known stands in what was read"
    if looks:
        where = [f"{rank_text(s.rank)} {s.activity.label} ({s.where})" for s in looks if s.activity and s.where]
        return f"{count(len(looks), 'rank')} looked at: {listed(where, 2)}; nobody is seen to hold up the others"
    if any(event.kind in OF_THE_ENDED or event.data.get("consequence") is True for event in job.events):
        return "only processes that were made to end speak in what was read: the cause is in other ranks' logs"
    unknown = warned(job, "other")
    if unknown:
        return f"nothing that is known is wrong; NCCL's last warning: {text_of(unknown[-1], 'message')[:160]}"
    return "nothing wrong was found in what was read, and it does not say how the run ended"


def _says_something(job: Job) -> bool:
    return any(event.kind not in ("log.end", "log.error") for event in job.events)


def too_few_answers(job: Job) -> Iterator[Unknown]:
    """NCCL RAS answers whose counts differ, but too few to tell a hang from a job in motion."""
    if not job.ras or len(job.ras) >= POLLS:
        return
    last = max(job.ras, key=lambda look: look.at).value
    for communicator in last.communicators:
        for op in sorted({op for rank in communicator.ranks for op in rank.counts}):
            by_count: dict[int, list[int]] = defaultdict(list)
            for rank in communicator.ranks:
                if op in rank.counts:
                    by_count[rank.counts[op]].append(rank.rank)
            if len(by_count) > 1:
                told = ", ".join(f"{ranks_text(ranks)} at {number}" for number, ranks in sorted(by_count.items()))
                nodes = (last.node,) if last.node else ()
                why = f"{op} of communicator {communicator.comm}: {told}; counts of a job in motion differ, too: ask"
                yield Unknown("NCCL RAS", nodes, f"{why} {POLLS} times")
