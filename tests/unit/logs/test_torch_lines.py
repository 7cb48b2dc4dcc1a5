"""Mismatches, DDP, the store, gloo, CUDA and data loader workers, one line each."""

import pytest

from collectors.samples.values import Value
from tests.support.logs import kinds, of_kind, only, parse

LINES: dict[str, tuple[str, dict[str, Value]]] = {
    "  - [1] finished collective #2, but didn't join collective #3 (count from 1)": (
        "torch.desync",
        {"lagging": [1], "finished": 2, "missing": 3},
    ),
    "ranks [4, 5] are the lagging ranks that caused this timeout. They never joined any collectives": (
        "torch.desync",
        {"lagging": [4, 5]},
    ),
    "[rank0]:[E1121 00:12:20.815 ProcessGroupGloo.cpp:2901] [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier"
    " in 8000 ms": ("torch.barrier_failed", {"missing": [1, 3], "timeout_ms": 8000, "reporter": 0}),
    "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please"
    " check rank 0 logs for faulty rank.": ("torch.barrier_reached", {"reporter": 2, "waited_for": 0}),
    "Parameter indices which did not receive grad for rank 3: 2 3 17": (
        "torch.unused_parameters",
        {"reporter": 3, "indices": [2, 3, 17]},
    ),
    "Parameters which did not receive grad for rank 1: head.weight, head.bias": (
        "torch.unused_parameters",
        {"reporter": 1, "names": ["head.weight", "head.bias"]},
    ),
    "Expected to mark a variable ready only once. This error is caused by … Parameter at index 127 with name"
    " layers.3.w has been marked as ready twice.": ("torch.marked_twice", {"index": 127, "name": "layers.3.w"}),
    "Timed out after 1801 seconds waiting for clients. 15/16 clients joined.": (
        "torch.store_timeout",
        {"phase": "clients", "joined": 15, "expected": 16, "seconds": 1801},
    ),
    "Timed out initializing process group in store based barrier on rank: 0, for key: store_based_barrier_key:1"
    " (world_size=16, worker_count=14, timeout=0:30:00)": (
        "torch.store_timeout",
        {"phase": "barrier", "joined": 14, "expected": 16},
    ),
    "[E1121 00:23:34.2 socket.cpp:1028] [c10d] The client socket has timed out after 6000ms while trying to connect to"
    " (10.0.0.9, 29779).": ("torch.store_timeout", {"phase": "connect", "address": "10.0.0.9", "port": 29779}),
    "[W socket.cpp:601] [c10d] The client socket has failed to connect to [gpu-1.cluster]:29500 (errno: 111 -"
    " Connection refused).": ("torch.store_timeout", {"phase": "connect"}),
    "[E1125 18:50:08.6 socket.cpp:818] [c10d] The client socket has failed to connect to any network address of"
    " (10.255.255.1, 29500).": ("torch.store_timeout", {"address": "10.255.255.1", "port": 29500, "whole": True}),
    "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//worker_3": (
        "torch.store_timeout",
        {"phase": "wait", "seconds": 300.0, "keys": "/default_pg/0//worker_3"},
    ),
    "[W1121 00:23:42.9 socket.cpp:764] [c10d] The IPv6 network addresses of (no-such, 29779) cannot be retrieved (gai"
    " error: -2 - Name or service not known).": ("torch.unresolved", {"address": "no-such", "port": 29779}),
    "The server socket has failed to listen on any local network address. port: 29777, useIpv6: false, code: -98, name:"
    " EADDRINUSE, message: address already in use": ("torch.address_in_use", {"port": 29777}),
    "[W TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=5): Broken pipe": ("torch.store_lost", {}),
    '[rank7]:[E1121 01:35:13.9 x.cpp:1] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has'
    " shut down too early), with error: Broken pipe": ("torch.store_lost", {}),
    "[/x/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete": (
        "gloo.timeout",
        {"ms": 8000, "direction": "recv"},
    ),
    "[/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.4]:36027. This is typically caused by": (
        "gloo.closed",
        {"peer": "[10.0.0.4]:36027"},
    ),
    "[enforce fail at /x/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4. ": (
        "gloo.size_mismatch",
        {},
    ),
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity of 79.11 GiB of which 11.06 MiB is"
    " free. Including non-PyTorch memory, this process has 79.09 GiB memory in use.": (
        "torch.out_of_memory",
        {"tried": 20 << 20, "device": 3, "free": int(11.06 * (1 << 20)), "capacity": int(79.11 * (1 << 30))},
    ),
    "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 1; 15.78 GiB total capacity; 13.21 GiB already allocated;"
    " 1.12 GiB free; 13.30 GiB reserved in total by PyTorch)": (
        "torch.out_of_memory",
        {"tried": 2 << 30, "device": 1, "in_use": int(13.21 * (1 << 30))},
    ),
    "CUDA error: an illegal memory access was encountered": ("torch.cuda_error", {"signature": "illegal_access"}),
    "CUDA error: uncorrectable ECC error encountered": ("torch.cuda_error", {"signature": "ecc"}),
    "CUDA error: invalid device ordinal": ("torch.cuda_error", {"signature": "invalid_device"}),
    "../aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [12,0,0], thread: [3,0,0] Assertion"
    " `srcIndex < srcSelectDimSize` failed.": ("torch.cuda_error", {"signature": "device_assert"}),
    "DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible that dataloader's workers are out of"
    " shared memory.": ("torch.worker_died", {"worker_pid": 4711, "reason": "bus", "signal": "Bus error"}),
    "DataLoader worker (pid(s) 12) exited unexpectedly with exit code 1. Details are lost": (
        "torch.worker_died",
        {"worker_pid": 12, "reason": "exited", "exitcode": 1},
    ),
    "OSError: [Errno 24] Too many open files": ("host.open_files", {}),
    "E0712 failed (exitcode: -9) local_rank: 1 (pid: 8632) of binary: /usr/bin/python": (
        "elastic.failed",
        {"exitcode": -9, "signal": "KILL", "local_rank": 1, "failed_pid": 8632},
    ),
    "W1121 00:12:21.6 22118 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 22203 closing signal"
    " SIGTERM": ("elastic.closing", {"signal": "TERM", "closed_pid": 22203}),
    "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError": ("elastic.rendezvous", {"problem": "timeout"}),
    "torch.distributed.elastic.rendezvous.api.RendezvousClosedError": ("elastic.rendezvous", {"problem": "closed"}),
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 17 got signal: 15": (
        "elastic.signal",
        {"signal": "TERM", "signalled_pid": 17},
    ),
    "[default] Worker group FAILED. 2/3 attempts left; will restart worker group": (
        "elastic.restart",
        {"attempts_left": 2},
    ),
    "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.": (
        "elastic.finished",
        {},
    ),
    "Process 771 did not exit after SIGKILL within 30s; abandoning and continuing teardown.": (
        "elastic.unkillable",
        {"stuck_pid": 771},
    ),
    "[2026-11-20 02:47:00,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4242": (
        "launcher.killed",
        {"killed_pid": 4242},
    ),
    "[2026-11-20 02:47:00,123] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', 't.py'] exits with return"
    " code = -9": ("launcher.exit", {"launcher": "deepspeed", "exitcode": -9, "signal": "KILL"}),
    "subprocess.CalledProcessError: Command '['/usr/bin/python', 't.py']' returned non-zero exit status 1.": (
        "launcher.exit",
        {"launcher": "accelerate", "exitcode": 1},
    ),
    "srun: error: node7: task 3: Killed": ("launcher.exit", {"task": 3, "signal": "KILL"}),
    "slurmstepd: error: *** JOB 123 ON node3 CANCELLED AT 2026-11-20T02:47:00 ***": (
        "slurm.cancelled",
        {"reason": "user"},
    ),
    "  Process name: [[29973,1],2]\n  Exit code:    1": (
        "launcher.exit",
        {"launcher": "mpi", "task": 2, "exitcode": 1},
    ),
    "train.sh: line 12:  4242 Killed                  python train.py": ("process.signal", {"signal": "KILL"}),
    "Segmentation fault (core dumped)": ("process.signal", {"signal": "SEGV"}),
    "[vm-61:3430:0:3450] Caught signal 11 (Segmentation fault: address not mapped)": (
        "process.signal",
        {"signal": "SEGV"},
    ),
    "RuntimeError: [enforce fail at CPUAllocator.cpp:71] . DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 244470272 bytes. Error code 12 (Cannot allocate memory)": (
        "host.memory",
        {"tried": 244470272, "mapping": False},
    ),
    "RuntimeError: unable to mmap 280 bytes from file </torch_5_1>: Cannot allocate memory (12)": (
        "host.memory",
        {"mapping": True},
    ),
    "RuntimeError: [1] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d key-value store "
    "by key '0', but store->get('0') got error: Timeout waiting for key: default_pg/0/0 after 1800000 ms": (
        "torch.store_timeout",
        {"keys": "default_pg/0/0", "seconds": 1800.0, "from_rank": 0},
    ),
    "HW Exception by GPU node-9 (Agent handle: 0x63) reason :GPU Hang": ("torch.cuda_error", {"signature": "gpu_lost"}),
    "RuntimeError: Application timeout caused pair closure": ("gloo.timeout", {}),
}


@pytest.mark.parametrize("text", LINES)
def test_a_line(text: str) -> None:
    kind, expected = LINES[text]
    found = of_kind(parse(text + "\n"), kind)
    assert len(found) == 1
    assert expected.items() <= found[0].data.items()


@pytest.mark.parametrize("prefix", ["[rank3]: ", "[default3]:[rank3]: ", "3: ", "[1,3]<stderr>: ", "gpu-7: [rank3]: "])
@pytest.mark.parametrize("text", [text for text in list(LINES)[::5] if not text.startswith("[rank")])
def test_the_same_behind_a_label(text: str, prefix: str) -> None:
    found = of_kind(parse(prefix + text + "\n"), LINES[text][0])
    assert [event.rank for event in found] == [3]


def test_fingerprints() -> None:
    side = (
        "CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[%s], TensorDtypes=Float, Device=x(y))"
    )
    a, b = side % "4, 2", side % "8, 2"
    event = only(
        parse(
            f"RuntimeError: Detected mismatch between collectives on ranks. Rank 2 is running collective: {a}, but Rank"
            f" 0 is running collective: {b}.Collectives differ"
            " in the following aspects: \t Tensor Tensor shapes: 4vs 8\n"
        ),
        "torch.fingerprint",
    )
    assert (event.data["rank_a"], event.data["rank_b"], event.data["differs"]) == (2, 0, ["shape"])
    assert (event.data["shape_a"], event.data["shape_b"], event.data["seq_a"]) == ("4, 2", "8, 2", 1)


def test_a_driver_s_rule_over_three_lines() -> None:
    event = only(
        parse(
            "[ 1843.3] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
            "               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
            "               NVRM: fallen off the bus and is not responding to commands.\n"
            "[ 1843.4] NVRM: The NVIDIA probe routine failed for 1 device(s).\n"
        ),
        "kernel.xid",
    )
    assert (event.data["code"], event.data["bus_id"]) == (79, "0000:b3:00")


def test_what_led_to_an_exception_is_read_too() -> None:
    chained = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nRuntimeError: connect() timed out.\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 2, in g\nRendezvousError: see inner exception\n'
    )
    events = parse(chained)
    assert only(events, "torch.store_timeout").data["phase"] == "connect"
    assert only(events, "python.exception").data["type"] == "RendezvousError"


def test_what_spawn_raises_about_its_children_is_a_launcher_s() -> None:
    file = "/x/site-packages/torch/multiprocessing/spawn.py"
    raised = f'Traceback (most recent call last):\n  File "{file}", line 1, in %s\nException: x\n'
    assert only(parse(raised % "join"), "python.exception").data["launcher"] is True
    assert only(parse(raised % "_wrap"), "python.exception").data["launcher"] is False


def test_ordinary_lines_say_nothing() -> None:
    assert not kinds(
        parse(
            "step 100 loss 2.31 error 0.02\nEpoch 3:  45%|████▌     | 45/100 [00:12<00:15, 3.6it/s]\n"
            "INFO: link up the data set to the model\nwarnings.warn('x')\nsaving checkpoint, rank 0, to /ckpt\n"
            "2026-11-21 03:35:37,986 INFO root: killed time with 3 retries\nwandb: run finished\n"
        )
    )


def test_a_store_that_does_not_answer_a_client() -> None:
    said = "socket SocketImpl(fd=7, addr=[n2.site]:39076, remote=[n1.site]:29501) timed out after 1800000ms"
    event = only(
        parse(f"[rank3]:[W902 16:27:57.2946 socket.cpp:494] [c10d] waitForInput: {said}\n"), "torch.store_timeout"
    )
    assert (event.rank, event.data["address"], event.data["seconds"]) == (3, "n1.site", 1800)
    assert parse(f"[c10d] waitForInput: {said.replace('1800000', '1000')}\n") == []
