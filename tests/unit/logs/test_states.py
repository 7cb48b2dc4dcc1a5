"""Tables of schedulers and clusters."""

from __future__ import annotations

import pytest

from collectors.node.logs.families import states
from tests.support.logs import kinds, only, parse


@pytest.mark.parametrize(
    ("line", "kind", "data"),
    [
        ("1234              train OUT_OF_ME+    0:125", "slurm.out_of_memory", {}),
        ("1234|train|FAILED|9:0", "launcher.exit", {"exitcode": 9}),
        ("1234.0          python     FAILED      0:9", "launcher.exit", {"signal": "KILL"}),
        ("State: FAILED (exit code 137)", "launcher.exit", {"exitcode": 137, "signal": "KILL"}),
        ("1234         train   NODE_FAIL      0:0", "slurm.cancelled", {"reason": "node_failure"}),
        ("State: TIMEOUT (exit code 0)", "slurm.cancelled", {"reason": "time_limit"}),
        ("   JobState=PREEMPTED Reason=None Dependency=(null)", "slurm.cancelled", {"reason": "preemption"}),
        ("train-1     0/1     OOMKilled   0          10m", "launcher.exit", {"signal": "KILL"}),
        ("n7   NotReady   <none>   3d   v1.28.2", "launcher.lost_node", {"launcher": "kubernetes"}),
        ("gpu*         up   infinite      1  down* n7", "launcher.lost_node", {"launcher": "slurm"}),
        ("slurmctld: error: Nodes n7 not responding, setting DOWN", "launcher.lost_node", {"launcher": "slurm"}),
    ],
)
def test_how_it_ended(line: str, kind: str, data: dict[str, object]) -> None:
    event = only(parse(line + "\n"), kind)
    assert {name: event.data.get(name) for name in data} == data


@pytest.mark.parametrize(
    "line",
    [
        "1234              train  COMPLETED      0:0",
        "1234.0            python    RUNNING      0:0",
        "train-0     1/1     Running            0          10m",
        "train-0     0/1     Init:1/2           0          2m",
        "n7   Ready    <none>   3d   v1.28.2",
        "gpu*         up   infinite      8   idle n[1-8]",
        "Epoch 3 FAILED to improve",
    ],
)
def test_what_goes_well(line: str) -> None:
    assert kinds(parse(line + "\n")) == []


ACCOUNT = (
    "qname        all.q\nhostname     n7.cluster\nowner        me\nfailed       0\nexit_status  {}\nru_utime     0.2\n"
)


def test_grid_engine_s_accounting() -> None:
    event = only(parse(ACCOUNT.format(137)), "launcher.exit")
    assert (event.host, event.data["exitcode"], event.data["signal"]) == ("n7.cluster", 137, "KILL")
    assert kinds(parse(ACCOUNT.format(0))) == []


NODE = "NodeName=n7 Arch=x86_64 CoresPerSocket=1\n   CPUTot=8 CPULoad=0.9\n   State={} ThreadsPerCore=1\n   Reason={}\n"


def test_a_node_as_slurm_shows_it() -> None:
    missing = only(
        parse(NODE.format("IDLE+DRAIN", "gres/gpu count reported lower than configured (0 < 8) [x]")), "gpu.unseen"
    )
    assert missing.host == "n7"
    assert only(parse(NODE.format("DOWN*+DRAIN", "Not responding [x]")), "launcher.lost_node").host == "n7"
    assert kinds(parse(NODE.format("IDLE", "none"))) == []


def test_nothing_is_made_of_nothing() -> None:
    assert list(states.read("")) == []
