"""The last line of an output that nothing knows: what says that something failed, and what only names failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read

FAILED = """job 12 has failed for good
Error: the run was ended by its owner
Aborting: cannot read the index
launcher: stage 3 crashed
worker 7 failed, giving up
train.py failed
Error in stage 3 of the plan
an error occurred in stage 3
fatal: the store is gone
Error Msg: the store is gone
download of shard 3 failed (no route)
ABORTED by the scheduler of the site
Failed to build the index
Unexpected failure in stage 2
the process was killed
the archive is corrupt
open /data/x: no such device, aborting
Unhandled mesh failure, so the run ends
Failed to export the model to /data/out.onnx
ended with an unknown error""".splitlines()
FINE = """Failed jobs: none
Using error feedback compression in rank order
validation error decreased (0.5 --> 0.4)
the error of the model is 3 % on test
test error after epoch 3 is 0.04
failed to find a cached file, downloading it
crash reporting is on for this run
W20261122 10:00:00.123456 27910 client.cc:190] connecting to node1 failed at 0 times
aborted=False, finished=True
Structured Error Msg: <NONE>
Root Cause of failures: N/A
Failure policy: restart always
job 12 of 12 done, 3 of them failed before and came through
"error": null
corrupted files found: 0
saved the crash dump handler to /tmp/x
Err@1 23.87 Error@5 7.2
errors are written to stderr.log
the logs of failed ranks are kept in /tmp/x
Watching for crashed workers
Monitoring for failures every 10 s
Failure detector started
crashed   : no
Fatal: none so far
killed by user: never
Aborting is possible with Ctrl-C
EarlyStopping: no improvement, error stays at 0.2
GPU 3: ECC error count 0
Last failed login: Mon Nov 23 10:00:00 from 10.0.0.7
last error (mean) 0.02
Failed to export span batch code: 502, reason: Bad Gateway
Failed to export metrics to collector-7:4317, error code: 14
ERROR:exporter: Failed to export traces to collector-7:4317, error code: StatusCode.UNAVAILABLE
errors            0""".splitlines()


def verdict(folder: Path, line: str) -> Verdict:
    """The verdict on an output that ends with this line."""
    path = folder / "out.txt"
    path.write_text("epoch 1 is done\nloading all shards\n" + line + "\n")
    return diagnose(job_of(read([path])))


@pytest.mark.parametrize("row", range(len(FAILED)))
def test_a_failure(tmp_path: Path, row: int) -> None:
    assert {finding.kind for finding in verdict(tmp_path, FAILED[row]).findings} <= {
        "rank_crashed",
        "child_failed_no_detail",
    }
    assert verdict(tmp_path, FAILED[row]).findings


@pytest.mark.parametrize("row", range(len(FINE)))
def test_none(tmp_path: Path, row: int) -> None:
    assert [finding.summary for finding in verdict(tmp_path, FINE[row]).findings] == []


@pytest.mark.parametrize(
    "asked",
    [
        "SIGTERM received. Draining requests and shutting down...",
        "Engine core 0 received SIGTERM",
        "trigger signal=SIGTERM",
    ],
)
def test_what_parts_say_as_a_program_goes_down_that_was_told_to(tmp_path: Path, asked: str) -> None:
    said = "one of the children failed for good"
    assert not verdict(tmp_path, f"{asked}\n{said}").findings
    assert verdict(tmp_path, said).findings
    assert verdict(tmp_path, asked + "\n" + "the next run is scored\n" * 50 + said).findings


def test_a_loop_in_the_background_that_its_script_ends_is_no_rank(tmp_path: Path) -> None:
    """The shell prints what it ended, with the commands of the loop."""
    ended = "run.sh: line 160: 138253 Killed                  {0}\n    sleep 90; left=$(df -h /work | tail -1)\n    "
    ended += 'echo "[watch] PANIC: the disk is full; the run was killed"\ndone )'
    assert not verdict(tmp_path, ended.format("( while true; do")).findings
    (killed,) = verdict(tmp_path, ended.format("python train.py").partition("\n")[0]).findings
    assert killed.kind == "rank_killed"
