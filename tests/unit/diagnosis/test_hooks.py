"""Hooks of gradients that wait in a thread of autograd's for what they began themselves."""

from __future__ import annotations

from dataclasses import replace

from collectors.samples.stacks import StackDump
from hangtop.diagnosis.verdict.verdict import diagnose
from tests.support.jobs import BACKWARD, Sketch, first
from tests.support.stacks import thread

HOOK = thread("compress.<lambda> hook.py:17", name="pt_autograd_0", tid=7001)


def in_a_hook(dump: StackDump) -> StackDump:
    """The look, with a thread in a callback of the user's, which a call in C keeps."""
    return dump._replace(threads=[*dump.threads, HOOK])


def test_most_wait_in_a_callback_for_what_one_has_not_begun() -> None:
    job = Sketch()
    job.ranks().at(BACKWARD)
    made = job.job()
    away = {1002}
    stacks = tuple(dump if dump.pid in away else in_a_hook(dump) for dump in made.stacks)
    found = first(diagnose(replace(made, stacks=stacks)))
    assert (found.kind, found.ranks) == ("collective_mismatch", (2,))


def test_the_only_one_in_a_callback_holds_the_others_up() -> None:
    job = Sketch()
    job.ranks().at(BACKWARD)
    made = job.job()
    stacks = tuple(in_a_hook(dump) if dump.pid == 1002 else dump for dump in made.stacks)
    found = first(diagnose(replace(made, stacks=stacks)))
    assert (found.kind, found.ranks) == ("rank_stuck_in_code", (2,))
