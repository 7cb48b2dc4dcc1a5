"""Recordings of a real job: torch 2.11 over NCCL 2.28.9, three ranks on one H200, each a host of its own to NCCL.

``hangtop triage --record``, a few seconds each, with one thing gone wrong, as their names say. ``extra`` called a
collective that the others did not, which NCCL took for the next one of theirs, as it did with ``kinds`` and ``sizes``;
``lit`` is Lightning. Beside ``early``, ``raises`` and ``slowcpu`` another run was there, or ended meanwhile; ``early``
was recorded before torch's word at exit was read. From ``litsave`` on each job was in a PID namespace of its own, whose
neighbours shared its home; ``sources`` broadcast from another rank than the others. ``accelerate`` and ``newgroup``
had stood for less than two seconds when their recording ended: too short for a word. Folders have logs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder.session import FilesSession
from hangtop.session.replay import played

H200 = Path(__file__).parents[2] / "fixtures" / "h200"
OWN = ("env_not_wanted", "env_invalid", "gpu_xid", "zombie_process")
"""What is true of all of them: they share a GPU, over the loopback, and some with another run, or after an assertion
had failed."""
EXPECTED = {
    "reader": ("waiting", "waiting", (1,)),
    "queue": ("waiting", "waiting", (1,)),
    "init": ("hung", "init_hang", (1,)),
    "fsdp": ("waiting", "waiting", (1,)),
    "pipe": ("waiting", "waiting", (1,)),
    "graph": ("waiting", "waiting", (1,)),
    "stop": ("hung", "rank_stopped", (1,)),
    "kill": ("crashed", "rank_killed", (1,)),
    "gpu2": ("hung", "rank_stuck_in_code", (1,)),
    "uneven": ("hung", "collective_mismatch", (1,)),
    "gpu": ("hung", "collective_stalled", (0, 1, 2)),
    "behind": ("hung", "collective_stalled", (0, 1, 2)),
    "circle": ("hung", "collective_stalled", (0, 1, 2)),
    "slow": ("slow", "straggler_rank", (1,)),
    "first": ("healthy", "", ()),
    "eval": ("healthy", "", ()),
    "extra": ("healthy", "", ()),
    "lit": ("hung", "rank_stuck_in_data", (1,)),
    "oom": ("hung", "collective_mismatch", (1,)),
    "accelerate": ("unknown", "", ()),
    "objects": ("hung", "collective_mismatch", (1,)),
    "moe": ("hung", "collective_size_mismatch", ()),
    "worker": ("hung", "rank_stuck_in_data", (1,)),
    "transformers": ("waiting", "waiting", (1,)),
    "stages": ("waiting", "waiting", (0, 1)),
    "evaluate": ("waiting", "waiting", (0,)),
    "newgroup": ("unknown", "", ()),
    "early": ("hung", "rank_missing", (1,)),
    "raises": ("crashed", "rank_crashed", (1,)),
    "vanish": ("crashed", "rank_killed", (1,)),
    "order": ("hung", "collective_stalled", (0, 1, 2)),
    "jax": ("hung", "rank_stuck_in_data", (1,)),
    "jaxskip": ("hung", "rank_stuck_in_code", (1,)),
    "slowcpu": ("slow", "straggler_rank", (1,)),
    "jaxok": ("healthy", "", ()),
    "saves": ("waiting", "waiting", (0,)),
    "kinds": ("healthy", "", ()),
    "litsave": ("hung", "collective_mismatch", (0,)),
    "fullstate": ("hung", "collective_mismatch", (0,)),
    "producer": ("crashed", "rank_crashed", (1,)),
    "deadthread": ("waiting", "waiting", (2,)),
    "prompt": ("waiting", "waiting", (1,)),
    "server": ("waiting", "waiting", (0,)),
    "tokenise": ("waiting", "waiting", (0,)),
    "decode": ("healthy", "", ()),
    "sources": ("hung", "collective_size_mismatch", ()),
    "stages2": ("waiting", "waiting", (2,)),
}


def verdict_of(name: str) -> Verdict:
    return played(H200 / f"{name}.rec").diagnose()


@pytest.mark.parametrize("name", EXPECTED)
def test_what_a_real_job_hangs_in_is_named(name: str) -> None:
    verdict = verdict_of(name)
    first = next((found for found in verdict.findings if found.kind not in OWN), None)
    told = ("", ()) if first is None else (first.kind, first.ranks)
    assert (verdict.outcome, *told) == EXPECTED[name]


def test_each_recording_is_looked_at() -> None:
    assert {path.stem for path in H200.glob("*.rec")} == set(EXPECTED)


@pytest.mark.parametrize(
    ("name", "outcome", "kind"),
    [
        ("kill", "crashed", "rank_killed"),  # no word of a time-out: the watchdogs tell of a peer that is gone
        ("ima", "crashed", "rank_crashed"),
        ("wd", "hung", "collective_mismatch"),
        ("early", "hung", "rank_left_early"),
        ("raises", "crashed", "rank_crashed"),
        ("moe", "hung", "collective_size_mismatch"),
    ],
)
def test_the_logs_of_such_a_job_are_read_right(name: str, outcome: str, kind: str) -> None:
    found = diagnose(FilesSession([H200 / name]).job())
    assert (found.outcome, found.findings[0].kind, found.findings[0].ranks) == (outcome, kind, (1,))
    assert ("watchdog_timeout" in [one.kind for one in found.findings]) is (name not in ("kill", "ima"))


def test_what_is_not_known_yet_is_told_and_not_a_setting_beside_it() -> None:
    verdict = played(H200 / "gpu.rec", 2.0).diagnose()
    assert (verdict.outcome, verdict.findings[0].kind) == ("unknown", "env_not_wanted")
    assert "nothing was seen to move" in verdict.summary
