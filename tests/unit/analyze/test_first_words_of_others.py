"""First words of libraries, launchers and monitors by which a run is known to have ended; and the same words in peace.

MPICH's and MVAPICH's, LAMMPS's, NVSHMEM's, Flux's, old kernels', systemd's, RAS's one answer, conda's in a script.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read


def _of(tmp_path: Path, text: str, name: str = "job.log") -> list[Finding]:
    (tmp_path / name).write_text(text)
    return [one for one in diagnose(job_of(read([tmp_path]))).findings if one.severity != "info"]


@pytest.mark.parametrize(
    ("text", "ranks", "node", "words"),
    [
        ("[cli_5]: aborting job:\nFatal error in PMPI_Init_thread:\nOther MPI error\n\n", (5,), "", "PMPI_Init_thread"),
        ("Abort(1091215): Fatal error in internal_Init: Other MPI error, error stack:\n", (), "", "internal_Init"),
        (
            ("PMGR_COLLECTIVE ERROR: rank 4 on qz31: Called pmgr_abort() Code: 1, Msg: application called "
            "MPI_Abort(MPI_COMM_WORLD, 1) - process 4\n"),
            (4,), "qz31", "MPI_Abort",
        ),
        (
            ("Assertion failed in file ../../src/mpid/ch4/src/x.c at line 12: win->base != NULL\n"
            "/opt/mpi/lib/libmpi.so.12(MPL_backtrace_show+0x1c) [0x7f706faaa06c]\n"
            "/opt/mpi/lib/libmpi.so.12(MPIR_Assert_fail+0x21) [0x7f706f453f01]\n"),
            (), "", "win->base != NULL",
        ),
        ("ERROR on proc 12: Bond atoms 7 9 missing on this step (../ntopo.cpp:63)\n", (12,), "", "Bond atoms"),
        (
            ('Traceback (most recent call last):\n  File "md.py", line 3, in <module>\n    go()\n'
            "lammps.MPIAbortException: 'ERROR on proc 6: Lost atoms (src/thermo.cpp:494)'\n"),
            (6,), "", "Lost atoms",
        ),
        (
            "(Worker_DP2_TP1_EP5 pid=411) RuntimeError: DeepEP error: timeout (combine CPU)\n",
            (5,), "", "DeepEP error",
        ),
        ("[ERROR] ME(16,MainProcess):[api.py:431] Time out nodes are ['9']\n", (9,), "", "Time out nodes"),
    ],
)  # fmt: skip
def test_an_end_is_told_by_rank_place_and_words(
    tmp_path: Path, text: str, ranks: tuple[int, ...], node: str, words: str
) -> None:
    (finding,) = _of(tmp_path, text)
    assert (finding.kind, finding.ranks, list(finding.nodes)) == ("rank_crashed", ranks, [node] if node else [])
    assert words in finding.summary


@pytest.mark.parametrize(
    "text",
    [
        "thermo: ERROR on proc count is not printed here\nstep 1 of 2\nstep 2 of 2\n",
        "2025-01-02 10:00:00 Time out nodes are []\nall is well\n",
    ],
)
def test_the_same_words_in_peace(tmp_path: Path, text: str) -> None:
    assert _of(tmp_path, text) == []


SHMEM = "/build/nvshmem/src/host/"
NOT_THIS_ONE = f"WARN: init failed for remote transport: ibrc\n{SHMEM}transport/transport.cpp:275: init failed for "


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("init/init.cu:989: non-zero status: 7 nvshmem detect topo failed", "nccl_init_failed"),
        ("init/init.cu:1047: non-zero status: 7 nvshmem setup connections failed", "nccl_connect_failed"),
        (
            "init/init.cu:nvshmemi_check_state_and_init:1080: nvshmem initialization failed, exiting",
            "nccl_init_failed",
        ),
    ],
)
def test_nvshmem_that_does_not_start(tmp_path: Path, lines: str, kind: str) -> None:
    (finding,) = _of(tmp_path, f"{NOT_THIS_ONE}transport: IBGDA\n{SHMEM}{lines}\n")
    assert finding.kind == kind
    assert finding.summary.startswith("NVSHMEM ")


def test_one_transport_of_nvshmems_that_does_not_start_is_no_fault(tmp_path: Path) -> None:
    assert _of(tmp_path, f"{NOT_THIS_ONE}transport: IBGDA\nstep 1 of 9: loss 1.5\nstep 2 of 9: loss 1.4\n") == []


def test_psm2s_host_stands_before_its_words_without_a_blank(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, "nx-0214.30734PSM2 can't open hfi unit: -1 (err=23)\n")
    assert (finding.kind, finding.nodes) == ("nccl_init_failed", ("nx-0214",))


@pytest.mark.parametrize(
    ("text", "node", "by"),
    [
        ("9.4s: flux-shell[0]: ERROR: oom: Memory cgroup out of memory: killed 2 tasks on pk7.\n", "pk7", "by Flux"),
        (
            ("Nov 05 21:14:12 gcr-37 kernel: Memory cgroup out of memory: Kill process 193 (java) score 1337 or "
            "sacrifice child\n"),
            "gcr-37", "by the kernel",
        ),
        (
            ("Nov 05 21:14:12 gcr-37 kernel: Out of memory: Kill process 193 (python3) score 937 or sacrifice child\n"
            "Nov 05 21:14:12 gcr-37 kernel: Killed process 193 (python3) total-vm:81kB, anon-rss:72kB, file-rss:0kB\n"),
            "gcr-37", "by the kernel",
        ),
    ],
)  # fmt: skip
def test_memory_that_ran_out_in_others_words(tmp_path: Path, text: str, node: str, by: str) -> None:
    (finding,) = _of(tmp_path, text)
    assert (finding.kind, finding.nodes) == ("rank_killed", (node,))
    assert by in finding.summary


MPIRUNS = "mpirun noticed that process rank 4 with PID 1188 on node rm114 exited on signal {}.\n"
FULL = "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=240.batch. Some processes may have been killed.\n"


@pytest.mark.parametrize(
    ("signal", "full", "words"),
    [
        ("9 (Killed)", FULL, "out of memory"),
        ("9 (Killed)", "", "from outside"),
        ("11 (Segmentation fault)", "", "signal SEGV"),
    ],
)
def test_a_kill_beside_slurms_word_of_memory(tmp_path: Path, signal: str, full: str, words: str) -> None:
    (finding,) = _of(tmp_path, MPIRUNS.format(signal) + full)
    assert finding.ranks == (4,)
    assert words in finding.summary
    assert ("by the kernel: out of memory" in finding.summary) == bool(full)


def test_what_flux_says_of_memory_behind_a_kill_is_no_end(tmp_path: Path) -> None:
    text = "9.4s: flux-shell[0]: ERROR: oom: Memory cgroup out of memory: killed 1 task on pk7.\n"
    (finding,) = _of(tmp_path, text + "9.5s: flux-shell[0]: ERROR: oom: memory.peak = 1.44G\n")
    assert finding.kind == "rank_killed"


def _dumped(program: str) -> str:
    return (
        f"           PID: 1498 ({program})\n        Signal: 11 (SEGV)\n"
        f"       Message: Process 1498 ({program}) of user 765 dumped core.\n"
    )


def test_a_core_that_systemd_kept(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, _dumped("python3"))
    assert finding.kind == "rank_crashed"
    assert "dumped core" in finding.summary


def test_a_core_of_a_desktops_program_is_no_ranks(tmp_path: Path) -> None:
    assert _of(tmp_path, _dumped("gnome-shell")) == []


def test_a_core_of_any_program_in_a_journal_is_no_ranks(tmp_path: Path) -> None:
    said = "Mar 05 03:59:10 n7 systemd-coredump[925]: Process 924 (composer@2.1-se) of user 1000 dumped core.\n"
    assert _of(tmp_path, said + said.replace("dumped core", "terminated abnormally with signal 6/ABRT")) == []


CONDA = "CondaError: Run 'conda init' before 'conda {}'\n"


def test_a_shell_without_condas_function_goes_on(tmp_path: Path) -> None:
    assert _of(tmp_path, f"\n{CONDA.format('activate')}\na warning\n\n{CONDA.format('deactivate')}\n", "a.err") == []


def test_another_error_of_condas_ends_a_short_log(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, "CondaError: Cannot link a source that does not exist\n", "a.err")
    assert finding.kind == "rank_crashed"


def _raised(file: str, error: str) -> str:
    return (
        'Traceback (most recent call last):\n  File "/job/embed.py", line 23, in store\n    client.get()\n'
        f'  File "/v/site-packages/{file}", line 90, in send\n    raise it\n{error}\n'
    )


@pytest.mark.parametrize("file", ["qdrant_client/http/api_client.py", "httpx/_client.py", "urllib3/connection.py"])
def test_a_service_that_is_not_there_is_no_peer(tmp_path: Path, file: str) -> None:
    (finding,) = _of(tmp_path, _raised(file, "client.HandlingException: [Errno 111] Connection refused"))
    assert finding.kind == "rank_crashed"
    assert "Connection refused" in finding.summary


@pytest.mark.parametrize(
    ("file", "error"),
    [
        ("torch/distributed/rpc.py", "RuntimeError: Connection refused"),
        ("httpx/_client.py", "ConnectionError: Connection reset by peer"),
    ],
)
def test_a_peer_that_is_gone_stays_one(tmp_path: Path, file: str, error: str) -> None:
    (finding,) = _of(tmp_path, _raised(file, error))
    assert finding.kind == "nccl_remote_error"


STORE = "[E socket.cpp:9] [c10d] The client socket has timed out after 900s while trying to connect to (n1, 2950).\n"
LAUNCHER = (
    'Traceback (most recent call last):\n  File "/opt/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    '  File "/opt/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 348, in wrapper\n'
)


def test_a_store_that_was_not_reached_leads_before_its_launchers_cut_traceback(tmp_path: Path) -> None:
    assert [one.kind for one in _of(tmp_path, STORE + LAUNCHER)] == ["store_timeout"]
    assert [one.kind for one in _of(tmp_path, LAUNCHER)] == ["child_failed_no_detail"]


DIFFER = (
    "RuntimeError: Detected mismatch between collectives on ranks. Rank {} is running collective: "
    "CollectiveFingerPrint(SequenceNumber=4, OpType={}), but Rank 2 is running collective: "
    "CollectiveFingerPrint(SequenceNumber=4, OpType=BARRIER). Collectives differ in the following aspects: "
    "Op type: ALLREDUCE vs BARRIER"
)


def _report(error: str) -> str:
    return (
        "============================================================\ntrain.py FAILED\n"
        "------------------------------------------------------------\nFailures:\n[1]:\n"
        "  time      : 2025-03-11_18:33:20\n  host      : len\n  rank      : 1 (local_rank: 1)\n"
        "  exitcode  : 1 (pid: 3400)\n  traceback : Traceback (most recent call last):\n"
        '    File "/job/train.py", line 16, in main\n      dist.barrier()\n'
        f"  {error}\n\n------------------------------------------------------------\n"
    )


def test_ranks_that_differ_by_the_report_of_torchrun(tmp_path: Path) -> None:
    first, *_ = _of(tmp_path, _report(DIFFER.format(1, "ALLREDUCE")))
    assert (first.kind, first.ranks) == ("collective_mismatch", (1, 2))


def test_another_error_in_that_report_is_the_ranks_own(tmp_path: Path) -> None:
    (finding,) = _of(tmp_path, _report("ValueError: no such option"))
    assert (finding.kind, finding.ranks) == ("rank_crashed", (1,))


RAS = """NCCL version 2.27.3 compiled with CUDA 12.9

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      1          2            1          2        2

Communicators... (0.01s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         2         2         2   RUNNING  {status}

Errors
======

{dead}#0-0 (b3398875b8b2a063) {status}
{what}"""
LACKING = "  Missing communicator data from 1 rank\n  Rank 1 -- GPU 0 managed by process 604 on node 10.4.9.13\n"
DEAD = "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 604 on node 10.4.9.13\n\n"


@pytest.mark.parametrize(("dead", "certainty"), [("", "possible"), (DEAD, "likely")])
def test_a_rank_that_the_one_answer_of_ras_lacks(tmp_path: Path, dead: str, certainty: str) -> None:
    (finding,) = _of(tmp_path, RAS.format(status="INCOMPLETE", dead=dead, what=LACKING), "ras.txt")
    assert (finding.kind, finding.certainty) == ("rank_missing", certainty)
    assert "604" in finding.evidence[0].text


def test_counts_that_differ_in_one_answer_of_ras_are_nothing(tmp_path: Path) -> None:
    what = "  Communicator ranks have different operation counts\n  1 rank has launched up to operation 640\n"
    assert _of(tmp_path, RAS.format(status="MISMATCH", dead="", what=what), "ras.txt") == []
