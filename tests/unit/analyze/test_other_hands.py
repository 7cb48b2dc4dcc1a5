"""Logs in which somebody else speaks: a desktop's programs, a user's Control-C, runs before in the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read


def _loud(folder: Path) -> list[Finding]:
    return [one for one in diagnose(job_of(read([folder]))).findings if one.severity != "info"]


def _of(tmp_path: Path, text: str, name: str = "job.log") -> list[Finding]:
    (tmp_path / name).write_bytes(text.encode())
    return _loud(tmp_path)


SEGFAULT = "Mar 05 03:40:05 n7 kernel: {0}[74452]: segfault at 10 ip 0000f sp 0000e error 4 in {0}[83e28,5a+a5]\n"


@pytest.mark.parametrize("program", ["zsh", ".ibus-x11-wrapp", "ibus-daemon", "gnome-control-c"])
def test_the_crash_of_a_shell_or_a_desktop_is_no_ranks(program: str, tmp_path: Path) -> None:
    assert _of(tmp_path, SEGFAULT.format(program), "journal.txt") == []


@pytest.mark.parametrize("program", ["python3", "pt_main_thread", "lmp_mpi", "sherpa", "shared_pool"])
def test_the_crash_of_another_program_is_told(program: str, tmp_path: Path) -> None:
    assert [one.kind for one in _of(tmp_path, SEGFAULT.format(program), "journal.txt")] == ["rank_crashed"]


DISK = (
    "[   26.224159] blk_update_request: I/O error, dev sda, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0\n"
    "[   26.234000] Buffer I/O error on dev sda, logical block 0, async page read\n"
)
ATTACHED = "[   82.566043] sd 0:0:0:0: [{}] Attached SCSI {}disk\n"


def test_a_disk_that_was_attached_anew_is_back(tmp_path: Path) -> None:
    assert _of(tmp_path, DISK + ATTACHED.format("sda", "removable "), "dmesg.txt") == []


@pytest.mark.parametrize("text", [ATTACHED.format("sda", "") + DISK, DISK + ATTACHED.format("sdb", "")])
def test_a_disk_that_fails_afterwards_or_another_one_is_not(text: str, tmp_path: Path) -> None:
    assert [one.kind for one in _of(tmp_path, text, "dmesg.txt")] == ["storage_stalled"]


INTERRUPTED = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 178, in <module>\n    main()\n'
    '  File "model.py", line 119, in update\n    value = k.numpy()\n'
    "KeyboardInterrupt\n"
)
ABORTED = (
    "terminate called without an active exception\n\n\n"
    "--------------------------------------\nC++ Traceback (most recent call last):\n"
    "--------------------------------------\n0   paddle::framework::SignalHandle(char const*, int)\n\n"
    "----------------------\nError Message Summary:\n----------------------\n"
    "FatalError: `Process abort signal` is detected by the operating system.\n"
    '  [TimeInfo: *** Aborted at 1614912721 (unix time) try "date -d @1614912721" if you are using GNU date ***]\n'
    "  [SignalInfo: *** SIGABRT (@0x6e38) received by PID 28216 (TID 0x7f8b2efcd700) from PID 28216 ***]\n"
)


def test_what_a_control_c_aborts_is_no_crash(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"workerlog.{rank}").write_text("loss: 3.88\n" + INTERRUPTED + ABORTED)
    assert _loud(tmp_path) == []


def test_an_abort_without_one_is_a_crash(tmp_path: Path) -> None:
    assert [one.kind for one in _of(tmp_path, "loss: 3.88\n" + ABORTED, "workerlog.0")] == ["rank_crashed"]


RAISED = (
    "Traceback (most recent call last):\n"
    '  File "main.py", line {0}, in <module>\n    train()\n'
    '  File "main.py", line {0}, in train\n    go()\n{1}\n'
)
ENDED = (
    "\n\n--------------------------------------\nC++ Traceback (most recent call last):\n"
    "--------------------------------------\nNo stack trace in paddle, may be caused by external reasons.\n\n"
    "----------------------\nError Message Summary:\n----------------------\n"
    "FatalError: `Termination signal` is detected by the operating system.\n"
    '  [TimeInfo: *** Aborted at {0} (unix time) try "date -d @{0}" if you are using GNU date ***]\n'
    "  [SignalInfo: *** SIGTERM (@0x3f4002b0606) received by PID {1} (TID 0x7f2aa1cd64c0) from PID 28000 ***]\n"
)
GLOG = "W0405 09:49:18.610507 2874711 reducer.cc:633] There is no parameter. Error or warning: none of ours.\n"


def test_the_last_process_of_one_ranks_file_counts(tmp_path: Path) -> None:
    thread = "Exception in thread Thread-1:\n" + RAISED.replace("main.py", "/usr/lib/threading.py").replace(
        "<module>", "_bootstrap_inner"
    )
    text = RAISED.format(11, "UnboundLocalError: student") + ENDED.format(1680687507, 2819889)
    text += RAISED.format(12, "AssertionError: 96*96") + thread.format(932, "RuntimeError: 9 workers exit")
    text += ENDED.format(1680687907, 2853028)
    text += GLOG + RAISED.format(13, "ValueError: the shape is invalid") + ENDED.format(1680688160, 2874711)
    found = _of(tmp_path, text, "workerlog.2")
    assert [one.kind for one in found] == ["rank_crashed"]
    assert "the shape is invalid" in found[0].summary


BAR = "".join(f"\rCapturing: {n}/35 [00:{n:02d}<00:29,  1.18s/it]" for n in range(35)) * 60 + "\n"
SERVED = "".join(
    f"INFO 04-18 15:{n % 60:02d}:33 metrics.py:455] Avg prompt throughput: {n}.5 tokens/s, Running: 0 reqs\n"
    for n in range(900)
)


@pytest.mark.parametrize("served", [SERVED * 3, SERVED])
def test_a_server_that_serves_for_long_behind_another_ones_exception(served: str, tmp_path: Path) -> None:
    head = "INFO 04-18 14:47:42 engine.py:389] starting\n"
    raised = RAISED.format(59, "ValueError: Cannot provide a placement group within 1800 seconds.")
    assert _of(tmp_path, head + raised + BAR + served) == []


def test_one_that_says_no_more_is_told(tmp_path: Path) -> None:
    raised = RAISED.format(59, "ValueError: Cannot provide a placement group within 1800 seconds.")
    assert [one.kind for one in _of(tmp_path, SERVED + BAR + raised)] == ["rank_crashed"]


SUITE = (
    "2026-01-16 09:35:53 - experiment 2 done\n[ERROR] exp3_depths has failed\n"
    "2026-01-16 11:09:16 - experiment 4 done\n2026-01-16 11:46:45 - experiment 5 done\nsummary:\n"
)


def test_a_suite_that_goes_on_behind_one_of_its_parts(tmp_path: Path) -> None:
    assert _of(tmp_path, SUITE) == []


def test_one_that_ends_with_it_is_told(tmp_path: Path) -> None:
    assert [one.kind for one in _of(tmp_path, "\n".join(SUITE.split("\n")[:2]) + "\n")] == ["rank_crashed"]


def test_ucx_view_for_debugging_is_no_transport(tmp_path: Path) -> None:
    line = "[1695631433.421841] [c20:31108:f]  {}  UCX  ERROR inotify_add_watch(/tmp) failed: No space left on device\n"
    assert _of(tmp_path, line.format("vfs_fuse.c:281")) == []
    assert _of(tmp_path, line.format("ucp_worker.c:281")) != []


def test_a_step_that_slurm_cancels_without_naming_a_node(tmp_path: Path) -> None:
    found = _of(tmp_path, "slurmstepd: error: *** STEP 21.0 CANCELLED AT 2026-08-25T13:15:44 DUE TO TIME LIMIT ***\n")
    assert [one.kind for one in found] == ["rank_killed"]
    assert "time limit" in found[0].summary


def test_a_line_of_source_is_no_port(tmp_path: Path) -> None:
    stack = (
        "Fatal error in PMPI_Init: Other MPI error, error stack: OFI EP enable failed (ofi_init.c:1359:create_endpoint:"
    )
    found = _of(
        tmp_path, f"MPICH ERROR [Rank 0] [tioga23] - Abort(16) (rank 0 in comm 0): {stack}Address already in use)\n"
    )
    assert found[0].kind == "address_in_use"
    assert "1359" not in found[0].summary


def test_a_container_without_the_program(tmp_path: Path) -> None:
    missing = 'FATAL:   "bris": executable file not found in $PATH\n'
    found = _of(tmp_path, missing * 2 + "srun: error: nid007965: tasks 0-1: Exited with exit code 255\n")
    assert found[0].kind == "launch_failed"
    assert "bris" in found[0].summary


SPACE = (
    "[rank12]: Traceback (most recent call last):\n"
    '[rank12]:   File "/t/ckpt.py", line 61, in save\n[rank12]:     torch.save(state, path)\n'
    "[rank12]: OSError: [Errno 28] No space left on device\n"
)
TIMEOUTS = "".join(
    f"[rank{rank}]:[E906 03:02:35.09 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation "
    f"timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=30000) ran "
    "for 30002 milliseconds before timing out.\n"
    for rank, number in ((12, 3), (13, 4))
)


def test_ranks_fell_apart_because_one_raised(tmp_path: Path) -> None:
    assert [(one.kind, one.ranks) for one in _of(tmp_path, SPACE + TIMEOUTS)][:1] == [("rank_crashed", (12,))]


def test_ranks_that_fell_apart_by_themselves(tmp_path: Path) -> None:
    assert _of(tmp_path, TIMEOUTS)[0].kind == "collective_mismatch"


KERNEL = "[   37.881632] PM8008: chip_aggregate: qcom,pm8008-chip-en: {}\n"


@pytest.mark.parametrize("front", ["", "Mar 05 03:40:05 n7 kernel: "])
def test_a_driver_that_fails_at_boot_is_no_end_of_a_rank(front: str, tmp_path: Path) -> None:
    said = "failed to disable chip rc=-107, the userspace process has died with signal 11"
    assert _of(tmp_path, front + KERNEL.format(said), "dmesg.txt") == []
    assert _of(tmp_path, f"worker: {said}\n", "job.log") != []


def test_an_adapter_that_hangs(tmp_path: Path) -> None:
    text = "Mar 14 14:17:10 n9 kernel: [6045453.108633] e1000e 0000:00:1f.6 eno1: Detected Hardware Unit Hang:\n"
    found = _of(tmp_path, text, "syslog")
    assert [(one.kind, one.nodes) for one in found] == [("kernel_trouble", ("n9",))]


LOADER = (
    "Exception in thread Thread-{0}:\nTraceback (most recent call last):\n"
    '  File "/usr/lib/python3.8/threading.py", line 932, in _bootstrap_inner\n    self.run()\n'
    '  File "/x/dataset.py", line 160, in __getitem__\n    go()\nAssertionError: only in dynamic graph mode\n'
)
TRAINED = "".join(f"iter {number} loss 2.{number}\n" for number in range(6000))


def test_a_loaders_thread_that_fails_when_training_is_over(tmp_path: Path) -> None:
    assert _of(tmp_path, TRAINED + "INFO: End of training.\n" + LOADER.format(133)) == []
    assert _of(tmp_path, TRAINED + LOADER.format(133)) != []


def test_the_same_words_at_the_end_are_not_those_of_a_run_before(tmp_path: Path) -> None:
    text = TRAINED[:2000] + LOADER.format(26) + TRAINED + "INFO: End of training.\n" + LOADER.format(83)
    assert _of(tmp_path, text) == []


def test_libfabric_that_may_not_watch_memory(tmp_path: Path) -> None:
    line = "libfabric:1428:core:mr:ofi_uffd_init():346<warn> syscall/userfaultfd Operation not permitted\n"
    assert _of(tmp_path, line) == []


HIP = (
    "HW Exception by GPU node-1 (Agent handle: 0x1b0fc990) reason :GPU Hang\n"
    "[n3:08475] *** Process received signal ***\n[n3:08475] Signal: Aborted (6)\n"
    "[n3:08475] *** End of error message ***\n"
)
NOTICED = "mpirun noticed that process rank {} with PID {} on node n3 exited on signal 6 (Aborted).\n"


def test_the_rank_of_a_gpu_that_hangs_is_the_one_that_aborted(tmp_path: Path) -> None:
    found = _of(tmp_path, HIP + NOTICED.format(2, 8475))
    assert next((one.kind, one.ranks, one.nodes) for one in found) == ("gpu_lost", (2,), ("n3",))


def test_of_two_that_aborted_none_is_named(tmp_path: Path) -> None:
    found = _of(tmp_path, HIP + NOTICED.format(2, 8475) + NOTICED.format(1, 8474))
    assert next((one.kind, one.ranks) for one in found) == ("gpu_lost", ())


def test_a_port_on_which_hccl_cannot_listen(tmp_path: Path) -> None:
    text = (
        "[ERROR] HCCL(2717288,python3):2025-07-23-03:47:57.070.463 [hccl_socket.cc:100] [2717288][HcclSocket][Listen] "
        "socket type[1], listen on ip[192.168.20.160] and specific port[16666] fail. Please check the port status\n"
    )
    found = _of(tmp_path, text)
    assert found[0].kind == "address_in_use"
    assert "16666" in found[0].summary


GLOG = "I0718 19:14:{0:02d}.746666  310893 compiler_base.cc:3668]     scoped            68.0K\n"


def test_thousands_of_lines_of_a_compiler_hide_nothing(tmp_path: Path) -> None:
    text = "".join(map(GLOG.format, range(60))) * 50
    assert _of(tmp_path, text) == []
    broken = "F0718 19:15:00.746666  310893 compiler_base.cc:3668] Check failed: size > 0 (0 vs. 0)\n"
    assert [one.kind for one in _of(tmp_path, text + broken)] == ["rank_crashed"]


@pytest.mark.parametrize("said", ["an illegal memory access was encountered", "unspecified launch failure"])
def test_cudas_own_words_behind_a_programs(said: str, tmp_path: Path) -> None:
    found = _of(tmp_path, f"step 1\nGPUassert: {said} src/kernels.cu 42\n")
    assert [one.kind for one in found] == ["rank_crashed"]
    assert said in found[0].summary


def test_words_about_such_errors_are_none(tmp_path: Path) -> None:
    assert _of(tmp_path, "step 1\nINFO: see the notes on unspecified launch failures and an illegal move\n") == []


ASKED = (
    'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
    "ModuleNotFoundError: No module named 'torch'\n"
)
BUILDING = "".join(f"-- Installing: /x/part{chr(97 + n % 26)}.py\n" for n in range(60))


def test_what_a_build_asks_python_for(tmp_path: Path) -> None:
    assert _of(tmp_path, "-- Looking for torch\n" + ASKED + BUILDING) == []
    assert _of(tmp_path, BUILDING + ASKED) != []


def test_who_tells_at_the_level_of_information_that_a_child_ended_and_goes_on(tmp_path: Path) -> None:
    told = "[2026-01-19 03:13:04] [{}] Worker 3 exited with code 124\n"
    on = "".join(f"[2026-01-19 03:13:{n}] [INFO] Model loaded, part {chr(65 + n % 26)}\n" for n in range(10, 16))
    assert _of(tmp_path, told.format("INFO") + on) == []
    assert _of(tmp_path, told.format("INFO")) != []


def test_numpys_word_on_its_interface_is_no_exception(tmp_path: Path) -> None:
    word = "RuntimeError: module compiled against API version 0xc but this version of numpy is 0xa\n"
    found = _of(tmp_path, word + RAISED.format(411, "KeyError: 'v60109'"))
    assert "v60109" in found[0].summary


def test_a_phones_log(tmp_path: Path) -> None:
    line = "07-27 10:39:29.778  1296  5696 E UmdCamera: Camera submit request failed.\n"
    assert _of(tmp_path, line * 3) == []
    assert _of(tmp_path, "Camera submit request failed.\n") != []
