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


def test_make_that_failed_with_a_long_name(tmp_path: Path) -> None:
    (tmp_path / "make.err").write_text(f"make: *** [/usr/lib/{'x' * 90}/transform:35: x.o] Error 1\n")
    assert [finding.kind for finding in diagnose(job_of(read([tmp_path]))).findings] == ["rank_crashed"]
