"""Last words of runtimes that abort by themselves: what fires, and what only looks like it."""

from __future__ import annotations

import pytest

from tests.support.logs import kinds, of_kind, only, parse


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("F1122 10:00:00.123456 4711 server.cc:88] Unknown tensor id 17\n", "Unknown tensor id 17"),
        ("F20261122 10:00:00.123456 4711 server.cc:88] Unknown tensor id 17\n", "Unknown tensor id 17"),
        ("2026-11-22 10:00:00.123456: F external/xla/xla/nccl.cc:120] Broken here\n", "Broken here"),
        ("thread 'main' panicked at src/main.rs:10:5:\n", "src/main.rs:10:5:"),
        ("thread 'tokio-1' (812) panicked at 'no reactor', src/a.rs:1:1\n", "'no reactor', src/a.rs:1:1"),
        ("Fatal error in PMPI_Bcast: Other MPI error, error stack:\n", "Fatal error in PMPI_Bcast"),
    ],
)
def test_last_words(text: str, what: str) -> None:
    event = only(parse(text), "process.signal")
    assert str(event.data["what"]).startswith(what)
    assert event.data["signal"] == "ABRT"


@pytest.mark.parametrize(
    "text",
    [
        "I1122 10:00:00.123456 4711 server.cc:88] Fine\n",
        "W1122 10:00:00.123456 4711 server.cc:88] F: not so fine\n",
        "W20261122 10:00:00.123456 4711 server.cc:88] F: not so fine\n",
        "the panic: button was not pressed\n",
        "MPI_Bcast(1700)......: ok\n",
        "Abort(retry) is not what it seems\n",
    ],
)
def test_what_is_no_end(text: str) -> None:
    assert "process.signal" not in kinds(parse(text))


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("Abort(15) on node 2 (rank 2 in comm 0): Fatal error in PMPI_Init: Other MPI error\n", 2),
        ("MPICH ERROR [Rank 7] [n1] - Abort(15) (rank 7 in comm 0): Fatal error in PMPI_Init: Other\n", 7),
        ("application called MPI_Abort(MPI_COMM_WORLD, 1) - process 5\n", 5),
    ],
)
def test_mpi_names_the_rank(text: str, rank: int) -> None:
    assert only(parse(text), "process.signal").rank == rank


def test_open_mpi_s_report_is_one_event() -> None:
    text = (
        "[node1:23456] *** An error occurred in MPI_Recv\n"
        "[node1:23456] *** reported by process [1234567,6]\n"
        "[node1:23456] *** on communicator MPI_COMM_WORLD\n"
        "[node1:23456] *** MPI_ERR_TRUNCATE: message truncated\n"
        "[node1:23456] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort)\n"
    )
    event = only(parse(text), "process.signal")
    assert (event.rank, event.data["what"]) == (6, "MPI_ERR_TRUNCATE: message truncated in MPI_Recv")


@pytest.mark.parametrize(
    ("text", "rank", "signal", "code"),
    [
        ("=   PID 4711 RUNNING AT node7\n=   EXIT CODE: 9\n", None, "KILL", 9),
        ("=   RANK 3 PID 4711 RUNNING AT node7\n=   KILLED BY SIGNAL: 11 (Segmentation fault)\n", 3, "SEGV", None),
        ("=   RANK 1 PID 4711 RUNNING AT node7\n=   EXIT STATUS: 2\n", 1, None, 2),
        ("=   PID 4711 RUNNING AT node7\n=   EXIT CODE: 1\n", None, None, 1),
        ("=   PID 4711 RUNNING AT node7\n=   CLEANING UP REMAINING PROCESSES\n", None, None, None),
    ],
)
def test_hydra(text: str, rank: int | None, signal: str | None, code: int | None) -> None:
    events = of_kind(parse(text), "launcher.exit")
    if signal is None and code is None:
        assert events == []
        return
    (event,) = events
    assert (event.host, event.data.get("task"), event.data.get("signal"), event.data.get("exitcode")) == (
        "node7", rank, signal, code,
    )  # fmt: skip


def test_the_kernel_s_report_that_is_cut_before_the_kill() -> None:
    text = "[123.4] python invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0\n"
    event = only(parse(text), "kernel.oom")
    assert event.data == {"asked_by": "python"}
    assert kinds(parse("[123.4] python was not invoked; oom-killer idle\n")) == []


def test_the_host_in_front_of_open_mpi_s_dump_and_ucx_s_words() -> None:
    event = only(parse("[n7:231567] Signal: Segmentation fault (11)\n"), "process.signal")
    assert (event.host, event.pid, event.rank) == ("n7", 231567, None)
    line = "[n8:19546:0:19546] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15)\n"
    assert only(parse(line), "fabric.error").host == "n8"


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("[4be1c09d77a2:88 :0:91] Caught signal 7 (Bus error: nonexistent physical address)\n", "4be1c09d77a2"),
        ("[4be1c09d77a2:88] Signal: Bus error (7)\n", "4be1c09d77a2"),
        ("    [n7:231567] Signal: Bus error (7)\n", "n7"),
        ("[12:88] Signal: Bus error (7)\n", ""),
    ],
)
def test_the_id_of_a_container_is_a_host_and_so_is_one_that_somebody_indented(text: str, host: str) -> None:
    event = only(parse(text), "process.signal")
    assert (event.host, event.data["signal"]) == (host, "BUS")
