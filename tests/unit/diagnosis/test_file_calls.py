"""A rank that goes through a folder, or through many small files, on storage that takes long for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import ALL_REDUCE, Sketch, first

INDEXES = ["list_corpus run.py:31", "main run.py:9"]


@pytest.mark.parametrize(
    ("syscall", "waiting_on", "switches", "severity"),
    [
        ("newfstatat", "", 20.0, "info"),
        ("getdents64", "/mnt/corpus", 20.0, "info"),
        ("openat", "/mnt/corpus/17, to read", 8.0, "info"),
        ("read", "/mnt/corpus/17", 8.0, "info"),
        ("read", "/mnt/corpus/17", 0.0, "critical"),
        ("newfstatat", "", 1.0, "critical"),
        ("read", "pipe", 8.0, "critical"),
        ("read", "/dev/ttyS0", 8.0, "critical"),
    ],
)
def test_calls_that_end_are_progress(syscall: str, waiting_on: str, switches: float, severity: str) -> None:
    job = Sketch(watched=40.0, span=20.0, stood_still=20.0, patience=10.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(INDEXES, syscall=syscall, waiting_on=waiting_on).pulse(switches=switches, cores=0.01)
    found = first(job.verdict())
    assert (found.severity, found.ranks) == (severity, (0,))
    made = job.job()
    awake = max(dump.at for dump in made.stacks)
    stacks = tuple(d._replace(state="R", syscall="none", waiting_on="") if d.at == awake else d for d in made.stacks)
    assert first(diagnose(replace(made, stacks=stacks))).severity == severity, "the last look met it between two calls"
    job.span = job.stood_still = job.watched = 70.0
    assert first(job.verdict()).severity == "critical"


@pytest.mark.parametrize(("wchan", "severity"), [("io_schedule", "info"), ("folio_wait_bit_common", "info"),
                                                 ("wait_for_partner", "critical")])  # fmt: skip
def test_a_second_in_state_d_at_a_local_disk_is_no_hang(wchan: str, severity: str) -> None:
    """Before it has been there for as long as the rule of state D asks for, which gives it a minute."""
    job = Sketch(watched=4.0, span=1.3, looks=2, stood_still=7.0, patience=4.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(INDEXES, state="D", syscall="read", waiting_on="/data/shard-7").pulse(wchan=wchan)
    assert first(job.verdict()).severity == severity
