"""NCCL's own lines, in the formats of 2.10 to 2.30."""

import pytest

from collectors.samples.values import Value
from tests.support.logs import kinds, only, parse

INIT: dict[str, tuple[str, dict[str, Value]]] = {
    "2.14": (
        "gpu1:71:99 [0] NCCL INFO comm 0x55d0 rank 0 nranks 8 cudaDev 0 busId 1000 - Init COMPLETE",
        {"phase": "complete", "comm": "0x55d0", "group_rank": 0, "size": 8, "device": 0, "bus_id": "1000"},
    ),
    "2.20": (
        "gpu1:71:99 [3] NCCL INFO comm 0x5 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 4b000 commId 0x9f3a - Init START",
        {"phase": "start", "group_rank": 3, "size": 8, "comm_id": "0x9f3a", "bus_id": "4b000"},
    ),
    "2.22": (
        (
            "gpu1:71:99 [1] NCCL INFO ncclCommInitRank comm 0xa0 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000"
            " commId 0xabc - Init COMPLETE"
        ),
        {"function": "ncclCommInitRank", "phase": "complete", "comm_id": "0xabc"},
    ),
    "2.24 split, which lost its commId": (
        (
            "gpu1:71:99 [1] NCCL INFO ncclCommSplit comm 0xb0 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000"
            " parent 0xa0 color 7 key 1- Init START"
        ),
        {"function": "ncclCommSplit", "parent": "0xa0", "color": 7, "key": 1, "phase": "start"},
    ),
    "2.27 split": (
        (
            "gpu1:71:99 [1] NCCL INFO ncclCommSplit comm 0xb0 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2000"
            " parent 0xa0 splitCount 2 color -1 key 1 commId 0x77 - Init START"
        ),
        {"parent": "0xa0", "color": -1, "comm_id": "0x77"},
    ),
    "2.30": (
        (
            "gpu1:71:99 [1] NCCL INFO [Rank 1] ncclCommInitRankConfig comm 0xb0 rank 1 nranks 2 cudaDev 1 nvmlDev 1"
            " busId 2000 commId 0x77 - Init START"
        ),
        {"function": "ncclCommInitRankConfig", "group_rank": 1, "comm_id": "0x77", "phase": "start"},
    ),
}


@pytest.mark.parametrize("name", INIT)
def test_initialisation_in_every_format(name: str) -> None:
    text, expected = INIT[name]
    event = only(parse(text + "\n"), "nccl.init")
    assert expected.items() <= event.data.items()
    assert (event.host, event.pid) == ("gpu1", 71)


WARNINGS: dict[str, tuple[str, dict[str, Value]]] = {
    "NET/IB : Got completion from peer 10.0.0.2<40123> with error 12, opcode 1, len 0, vendor err 129 (Recv)": (
        "ib_retry_exceeded",
        {"peer": "10.0.0.2<40123>", "status": 12},
    ),
    "NET/IB: Got completion from peer 10.0.0.2<4> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) len=0"
    " vendor err 129 (Send) localGid ::1 remoteGids::2 hca mlx5_3": (
        "ib_retry_exceeded",
        {"status": 12, "status_name": "IBV_WC_RETRY_EXC_ERR", "device": "mlx5_3"},
    ),
    "NET/IB : Got completion with error 12, opcode 1, len 32630, vendor err 129": ("ib_retry_exceeded", {"status": 12}),
    "NET/IB : Got completion from peer 10.0.0.2<4> with status=5 opcode=0 len=0": ("ib_flush", {"status": 5}),
    "NET/IB : Got completion from peer 10.0.0.2<4> with error 4, opcode 0": ("ib_completion", {"status": 4}),
    "NET/IB : Got async event : port error": ("ib_port_error", {"error": "port error"}),
    "NET/IB : mlx5_2:1 Got non-fatal async event: port error(10)": (
        "ib_port_error",
        {"device": "mlx5_2", "port": 1},
    ),
    "NET/IB : mlx5_2:1 Got non-fatal async event: port active(9)": ("other", {}),
    "Call to ibv_modify_qp failed with error Invalid argument": ("ib_queue_pair", {"error": "Invalid argument"}),
    "Call to ibv_reg_mr failed with error Cannot allocate memory": ("ib_memory", {}),
    "Call to ibv_create_cq failed": ("ib_memory", {}),
    "socketProgress: Connection closed by remote peer node7.cluster<34567>": (
        "connection_closed",
        {"peer": "node7.cluster<34567>"},
    ),
    "Net : Call to recv from 10.1.2.3<5555> failed : Connection reset by peer": ("connection_closed", {}),
    "socketPollConnect: connect to 10.0.0.3<43211> returned Connection refused (111), exceeded error retry count": (
        "connect_failed",
        {"peer": "10.0.0.3<43211>"},
    ),
    "socketStartConnect: Connect to 10.0.0.3<43211> failed : Software caused connection abort": (
        "connect_failed",
        {"peer": "10.0.0.3<43211>", "error": "Software caused connection abort"},
    ),
    "Call to connect returned Connection timed out": ("connect_failed", {"error": "Connection timed out"}),
    "Bootstrap : no socket interface found": ("no_interface", {}),
    "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000": (
        "duplicate_gpu",
        {"group_ranks": [1, 0], "device": "1000"},
    ),
    "Mismatched NCCL version detected : rank 0 has version 22105 rank 3 has version 22005": ("version_mismatch", {}),
    "NET/Socket : peer 10.0.0.1<4> message truncated : receiving 8 bytes instead of 4": (
        "truncated",
        {"bytes": 8, "expected": 4},
    ),
    "Message truncated : received 1024 bytes instead of 256": ("truncated", {"bytes": 1024, "expected": 256}),
    "Cuda failure 'out of memory'": ("cuda", {"error": "out of memory"}),
    "Cuda failure 700 'an illegal memory access was encountered'": ("cuda", {}),
    "Error: failed to extend /dev/shm/nccl-a1b2c3 to 33030532 bytes": ("shared_memory", {}),
    "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 1": ("nvls", {}),
    "Call to socket failed : Too many open files": ("open_files", {}),
    "Mismatched collective detected, please check your collective calls at and around rank 11. You can use": (
        "collective_mismatch",
        {"group_ranks": [11]},
    ),
    "Bootstrap Root : rank 1 of 8 ranks has already checked in": ("duplicate_rank", {"group_ranks": [1], "size": 8}),
    "NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument": ("net_failed", {}),
    "NET/OFI Failed to initialize rdma protocol": ("net_plugin", {}),
    "Invalid rank requested : 2/2": ("duplicate_rank", {"group_ranks": [2], "size": 2}),
    "NET/IB : req 0/1 tag 0 peer 10.0.0.6<58683> collective mismatch error, local size 496640 remote size 65536": (
        "size_mismatch",
        {"peer": "10.0.0.6<58683>", "bytes": 65536, "expected": 496640},
    ),
    "NET/IB : req 0/1 tag 2 peer 10.0.0.6<5> posted incorrect receive info: size 99 addr 7f": (
        "size_mismatch",
        {"peer": "10.0.0.6<5>", "bytes": 99},
    ),
    "Socket recv failed while polling for opId=0x7f6f18cb7f40": ("proxy", {}),
    "[Proxy Service 1] Failed to execute operation Init from rank 2, retcode 3": ("proxy", {}),
    'Missing "iommu=pt" from kernel command line': ("other", {}),
}


@pytest.mark.parametrize("message", WARNINGS)
def test_warnings_are_told_apart(message: str) -> None:
    signature, expected = WARNINGS[message]
    event = only(parse(f"\ngpu1:71:99 [0] transport/net_ib.cc:1295 NCCL WARN {message}\n"), "nccl.warn")
    assert event.data["signature"] == signature
    assert expected.items() <= event.data.items()
    assert event.data["at_file"] == "transport/net_ib.cc:1295"


def test_the_time_and_function_of_new_warnings() -> None:
    line = "[2026-11-20 02:47:00] gpu1:71:99 [0] misc/socket.cc:50 (ncclSocketInit) NCCL WARN Too many open files\n"
    event = only(parse(line), "nccl.warn")
    assert event.data["signature"] == "open_files"
    assert event.at is not None
    assert event.host == "gpu1"


def test_a_warning_whose_words_stand_on_the_next_line() -> None:
    text = "a:1:2 [0] ofi_process_cq:196 NCCL WARN\n    NET/OFI Request 0x4 completed with error. RC: 107\n"
    event = only(parse(text), "nccl.warn")
    assert event.data["signature"] == "net_failed"
    assert "completed with error" in str(event.data["message"])


def test_facts() -> None:
    events = parse(
        "NCCL version 2.21.5+cuda12.4\n"
        "gpu1:71:99 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
        "gpu1:71:99 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n"
        "gpu1:71:99 [0] NCCL INFO NET/IB : No device found.\n"
        "gpu1:71:99 [0] NCCL INFO Using network AWS Libfabric\n"
        "gpu1:71:99 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
        "gpu1:71:99 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 8 total 1.23 (kernels 0.20,"
        " alloc 0.1, bootstrap 0.55, allgathers 0.00, topo 0.1, graphs 0.0, connections 0.3, rest 0.0)\n"
        "gpu1:71:99 [0] NCCL INFO comm 0xa0 rank 0 nranks 8 cudaDev 0 busId 1000 - Abort COMPLETE\n"
    )
    data = [event.data for event in events]
    assert kinds(events) == [
        "nccl.version", "nccl.bootstrap", "nccl.devices", "nccl.devices", "nccl.network", "nccl.env",
        "nccl.init_timings", "nccl.end",
    ]  # fmt: skip
    assert data[0] == {"version": "2.21.5", "cuda": "12.4"}
    assert data[1] == {"interface": "eth0", "address": "10.0.0.1"}
    assert data[2] == {"network": "IB", "devices": ["mlx5_0:1/IB", "mlx5_1:1/RoCE"], "interface": "eth0"}
    assert data[3] == {"network": "IB", "none": True}
    assert data[4] == {"network": "AWS Libfabric"}
    assert data[5] == {"name": "NCCL_IB_DISABLE", "value": "1"}
    assert data[6]["bootstrap"] == 0.55
    assert data[7]["phase"] == "abort"


def test_retries_of_a_connection() -> None:
    said = "connect to 10.0.0.3<5> returned Connection refused, retrying (7/34) after sleep for 700 msec"
    event = only(parse(f"gpu1:71:99 [0] NCCL INFO socketPollConnect: {said}\n"), "nccl.connect_retry")
    assert event.data == {"peer": "10.0.0.3<5>", "error": "Connection refused", "tried": 7, "of": 34}
    (old,) = parse("gpu1:71:99 [0] NCCL INFO Call to connect returned Connection refused, retrying (2/20)\n")
    assert (old.kind, old.data["tried"]) == ("nccl.connect_retry", 2)


def test_a_time_of_day_is_no_host() -> None:
    text = "[rank1]:[E415 21:17:08.996 x.cpp:552] [Rank 1] async exception, NCCL version 2.21.5\n"
    event = only(parse(text), "nccl.version")
    assert (event.host, event.pid) == ("", None)


def test_small_talk_says_nothing() -> None:
    assert not parse(
        "gpu1:71:99 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
        "gpu1:71:99 [0] NCCL INFO Connected all rings\n"
        "gpu1:71:99 [0] NCCL INFO threadThresholds 8/8/64 | 64/8/64 | 512 | 512\n"
        "gpu1:71:99 [0] NCCL INFO misc/utils.cc:233 memory stack hunk malloc(65536)\n"
        "gpu1:71:99 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n"
    )


def test_the_warnings_of_neuron_s_collectives() -> None:
    line = "2023-Aug-01 16:14:43.0210 33:35 [3] bootstrap.cc:89 CCOM WARN Timeout waiting for incoming connection\n"
    event = only(parse(line), "nccl.warn")
    assert (event.data["signature"], event.data["at_file"]) == ("init_timeout", "bootstrap.cc:89")
