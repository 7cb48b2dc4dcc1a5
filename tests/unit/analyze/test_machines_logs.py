"""What logs of machines hold that ended no rank: exceptions and crashes of their programs, libraries that probe."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read
from tests.support.logs import kinds, only, parse

SERVICE = (
    "Dec 04 23:24:18 n7 {0}[702]: Traceback (most recent call last):\n"
    'Dec 04 23:24:18 n7 {0}[702]:   File "/usr/lib/service", line 303, in <module>\n'
    "Dec 04 23:24:18 n7 {0}[702]:     main()\n"
    "Dec 04 23:24:18 n7 {0}[702]: RuntimeError: unknown message\n"
)
SEGFAULT = "[ 4497.304351] {}[6595]: segfault at 1f6f ip 00001cfe sp 00007fa3 error 4 in libx.so[7f00+9000]\n"
PROBES = (
    "libfabric:18986:17618::core:core:ze_hmem_dl_init():524<warn> Failed to dlopen libze_loader.so\n"
    "libfabric:18986:17618::core:core:ofi_hmem_init():612<warn> Failed to initialize hmem iface FI_HMEM_ZE: No data "
    "available\n"
)
TORN = "OutOfMemoryErrortorch.cuda: .CUDA out of memory. Tried to allocate 56.00 MiB. GPU torch.cudaOutOfMemoryError\n"


@pytest.mark.parametrize(("program", "count"), [("dbus-service", 0), ("systemd-udevd", 0), ("trainer", 1)])
def test_an_exception_of_the_machine_s_own_service(program: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "journal.txt").write_text(SERVICE.format(program))
    assert len(diagnose(job_of(read([tmp_path]))).findings) == count


@pytest.mark.parametrize("program", ["DedicatedWorker", "gnome-shell", "nvidia-smi", "postgres", "Chrome_IOThread"])
def test_a_crash_of_what_is_no_job(program: str) -> None:
    assert kinds(parse(SEGFAULT.format(program))) == []


@pytest.mark.parametrize("program", ["python3", "pt_main_thread", "all_reduce_perf", "codegen"])
def test_a_crash_of_what_may_be_a_rank(program: str) -> None:
    assert only(parse(SEGFAULT.format(program)), "kernel.segfault").data["pid"] == 6595


def test_what_libfabric_tries_at_its_start_is_no_error() -> None:
    assert kinds(parse(PROBES)) == []
    failed = "libfabric:18986:17618::verbs:ep:vrb_post():88<warn> Failed to post send: Connection refused\n"
    assert only(parse(failed), "fabric.error").data["library"] == "libfabric"


def test_what_libfabric_did_without_is_no_root(tmp_path: Path) -> None:
    """Words of no known kind, behind which NCCL was set up, accuse nobody."""
    warned = "libfabric:12:170::core:core:gdrcopy_init():20<warn> gdr_open failed!\n"
    ready = "n1:12:12 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 8 commId 0x9 - Init COMPLETE\n"
    log = tmp_path / "job.log"
    log.write_text(warned + ready)
    assert "nccl_init_failed" not in [found.kind for found in diagnose(job_of(read([log]))).findings]
    log.write_text(ready + warned)
    assert [found.kind for found in diagnose(job_of(read([log]))).findings] == ["nccl_init_failed"]


def test_names_into_which_several_ranks_wrote_are_no_host() -> None:
    assert {event.host for event in parse(TORN)} == {""}


def test_open_mpi_s_transports_are_told_by_host_and_rank(tmp_path: Path) -> None:
    (tmp_path / "mpi.err").write_text(
        "[n1][[12712,1],3][btl_tcp_frag.c:227:mca_btl_tcp_frag_recv] mca_btl_tcp_frag_recv: readv error (0x7ffe, 81)\n"
        "\tBad address(1)\n"
    )
    (finding,) = diagnose(job_of(read([tmp_path]))).findings
    assert (finding.kind, finding.ranks, finding.nodes) == ("nccl_connect_failed", (3,), ("n1",))


def test_a_tool_s_exit_code_at_the_level_of_warnings_is_nobody_s_end() -> None:
    line = "2022-07-21 08:21:44.254039: {} tensorflow/redzone.cc:314] ptxas exited with non-zero code 256\n"
    assert kinds(parse(line.format("W"))) == []
    assert kinds(parse(line.format("E"))) == ["log.error"]


@pytest.mark.parametrize(("name", "code"), [(f"/usr/lib/{'x' * 90}/transform:35: x.o", 1), ("Makefile:12: run", 137)])
def test_make_that_failed(tmp_path: Path, name: str, code: int) -> None:
    (tmp_path / "make.err").write_text(f"make: *** [{name}] Error {code}\n")
    assert [finding.kind for finding in diagnose(job_of(read([tmp_path]))).findings] == ["rank_crashed"]


@pytest.mark.parametrize(("program", "count"), [("chrome", 0), ("geany", 0), ("python3", 1)])
def test_what_the_kernel_killed_on_a_desktop(program: str, count: int) -> None:
    said = f"[ 4497.3] Out of memory: Killed process 96054 ({program}) total-vm:1kB, anon-rss:16976kB, file-rss:0kB\n"
    assert len(kinds(parse(said))) == count


@pytest.mark.parametrize(
    "said",
    [
        "  Socket errors: connect 0, read 0, write 0, timeout 335\nRequests/sec:      5.72\n",
        "PEUQSE: estimation of uncertainty or error from both experiments and theory.\n",
        "Checking for tables which need an upgrade, are corrupt or were\nnot closed cleanly.\n",
        "error: resource(s) were provided, but no name was specified\nNo such job exists.\n",
    ],
)
def test_words_that_tell_of_no_end(said: str, tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("reading\n" + said)
    assert diagnose(job_of(read([tmp_path]))).findings == ()


def test_a_command_s_error_that_is_the_last_word_counts(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("reading\nerror: no such option --x\n\nUsage: tool [OPTIONS]\n")
    assert [finding.kind for finding in diagnose(job_of(read([tmp_path]))).findings] == ["rank_crashed"]


def test_what_a_library_logs_as_a_warning_ended_nobody(tmp_path: Path) -> None:
    said = (
        "2026-03-02 10:11:32,709 {} MsgRouterThr:360778 [router.py:message_loop():77] {}\n"
        'Traceback (most recent call last):\n  File "/x/router.py", line 70, in message_loop\n    go()\n'
        "wandb.sdk.interface.router.MessageRouterClosedError\n"
    )
    path = tmp_path / "debug.log"
    path.write_text(said.format("WARNING", "message_loop has been closed"))
    assert diagnose(job_of(read([tmp_path]))).findings == ()
    path.write_text(said.format("WARNING", "the loop failed, exiting"))
    assert len(diagnose(job_of(read([tmp_path]))).findings) == 1
    path.write_text(said.format("ERROR", "message_loop has been closed"))
    assert len(diagnose(job_of(read([tmp_path]))).findings) == 1


def test_the_script_in_front_of_what_a_shell_says_is_no_host(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("run.sh: line 5: 19817 Killed                  python train.py\n")
    (finding,) = diagnose(job_of(read([tmp_path]))).findings
    assert (finding.kind, finding.nodes) == ("rank_killed", ())
