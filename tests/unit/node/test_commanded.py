"""Numbers of JAX's processes by their command lines, over a folder that plays /proc."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.node.ranks.commanded import CommandedNumber, numbers, ranks_by_words
from tests.support.fake_proc import PYTHON, FakeProc

COORDINATOR = 45671
ESTABLISHED, LISTEN = "01", "0A"


class Node:
    """Processes with sockets; all share one network."""

    def __init__(self, root: Path) -> None:
        self.proc = FakeProc(root)
        self.commands: dict[int, list[str]] = {}
        self.rows = ["  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"]

    def start(self, pid: int, *words: str, connected: int | None = COORDINATOR) -> None:
        self.commands[pid] = [PYTHON, "train.py", *words]
        folder = self.proc.add(pid, argv=self.commands[pid])
        self.proc.link(folder / "ns" / "net", "net:[1]")
        if connected is not None:
            self.socket(pid, 50_000 + pid, connected, ESTABLISHED)

    def socket(self, pid: int, local: int, remote: int, state: str) -> None:
        inode = 100 + len(self.rows)
        ends = f"0100007F:{local:04X} 0100007F:{remote:04X}"
        self.rows.append(
            f"   {len(self.rows)}: {ends} {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1"
        )
        self.proc.link(self.proc.root / str(pid) / "fd" / str(inode), f"socket:[{inode}]")

    def numbers(self) -> dict[int, CommandedNumber]:
        for pid in self.commands:
            net = self.proc.root / str(pid) / "net"
            net.mkdir(exist_ok=True)
            (net / "tcp").write_text("\n".join(self.rows) + "\n")
        return numbers(str(self.proc.root), self.commands)

    def ranks(self) -> dict[int, int]:
        return {pid: told.rank for pid, told in self.numbers().items()}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--process_id=3", "--num_processes=8"), CommandedNumber(3, 8)),
        (("--multiprocess_gpu", "--process_index", "3", "--process_count", "8"), CommandedNumber(3, 8)),
        (("--jax_distributed.process-id=3",), CommandedNumber(3, None)),
        (("--process_id=3", "--coordinator_address", "node1:1234"), CommandedNumber(3, None, 1234)),
        (("--process_id=3", "--tracker=node1:1234"), CommandedNumber(3, None)),
        (("--process_id=8", "--num_processes=8"), None),
        (("--process_id", "--verbose"), None),
        (("--seed=3",), None),
    ],
)
def test_options_that_say_it(node: Node, words: tuple[str, ...], told: CommandedNumber | None) -> None:
    node.start(50, *words)
    assert node.numbers() == ({} if told is None else {50: told})


def test_an_option_with_which_two_of_a_node_have_one_number_is_another_number(node: Node) -> None:
    node.start(50, "--host_idx=1")
    node.start(51, "--host_idx=1")
    assert node.numbers() == {}


def test_two_jobs_that_say_their_coordinators_are_told_apart(node: Node) -> None:
    for pid, port in ((50, 1234), (51, 1235)):
        node.start(pid, "--process_id=0", f"--coordinator_address=node1:{port}")
    assert node.numbers() == {50: CommandedNumber(0, None, 1234), 51: CommandedNumber(0, None, 1235)}


def test_siblings_at_one_coordinator_are_numbered_by_where_they_differ(node: Node) -> None:
    for rank, pid in enumerate((50, 51, 52)):
        node.start(pid, str(rank), "3", str(COORDINATOR), "--lr", "0.1")
    assert node.ranks() == {50: 0, 51: 1, 52: 2}


def test_so_are_those_that_are_left_of_them(node: Node) -> None:
    """The second was killed before anybody looked."""
    node.start(50, "0", "3", f"127.0.0.1:{COORDINATOR}")
    node.start(52, "2", "3", f"127.0.0.1:{COORDINATOR}")
    assert node.ranks() == {50: 0, 52: 2}


def test_a_coordinator_that_no_command_names_is_known_by_who_serves_it(node: Node) -> None:
    node.start(50, "0")
    node.start(51, "1")
    assert node.ranks() == {}, "they share a connection to anything"
    node.socket(50, COORDINATOR, 0, LISTEN)
    assert node.ranks() == {50: 0, 51: 1}


def test_where_process_1_serves_it_the_word_is_something_else(node: Node) -> None:
    node.start(50, "0")
    node.start(51, "1")
    node.socket(51, COORDINATOR, 0, LISTEN)
    assert node.ranks() == {}


def test_a_sweep_of_seeds_is_no_job(node: Node) -> None:
    for seed in range(4):
        node.start(50 + seed, str(seed), "45671", connected=443)
    assert node.ranks() == {}


@pytest.mark.parametrize(
    "words",
    [
        (("0", "7", "45671"), ("1", "5", "45671")),  # two numbers differ, and not alike
        (("--seed", "0", "45671"), ("--seed", "1", "45671")),
        (("5001", "45671"), ("5002", "45671")),
        (("0", "45671"), ("0", "45671")),
        (("0", "a", "45671"), ("1", "b", "45671")),  # not the same program
    ],
)
def test_other_differences_tell_nothing(node: Node, words: tuple[tuple[str, ...], ...]) -> None:
    for pid, own in enumerate(words, 50):
        node.start(pid, *own)
    assert node.ranks() == {}


def test_a_number_that_is_said_twice_is_one(node: Node) -> None:
    """The process, and the device that it is given."""
    node.start(50, "0", "0", "45671")
    node.start(51, "1", "1", "45671")
    assert node.ranks() == {50: 0, 51: 1}


def test_two_jobs_on_one_node_have_numbers_of_their_own(node: Node) -> None:
    for pid, rank, port in ((50, 0, 45671), (51, 1, 45671), (52, 0, 45672), (53, 1, 45672)):
        node.start(pid, str(rank), str(port), connected=port)
    assert node.ranks() == {50: 0, 51: 1, 52: 0, 53: 1}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([PYTHON, "main.py", "--rank", "3", "--world-size=8"], CommandedNumber(3, 8)),
        ([PYTHON, "tune.py", "--rank=16"], None),
        (["trainer: rank 3"], CommandedNumber(3, None)),
        (["my run [global rank 3 of 8]"], CommandedNumber(3, None)),
        ([PYTHON, "main.py", "--rank", "8", "--world-size=8"], None),
        ([PYTHON, "main.py", "--lora-rank", "16"], None),
        ([PYTHON, "main.py", "--node-rank=1", "--local_rank=3"], None),
        ([PYTHON, "rank_3.py"], None),
        (["/opt/rank_3"], None),
        (["VLLM::Worker_TP1"], None),
        (["worker (TP rank 1)"], None),
        ([], None),
    ],
)
def test_a_rank_of_torchs_is_told_by_an_option_or_a_title(words: list[str], told: CommandedNumber | None) -> None:
    assert ranks_by_words({50: words}) == ({} if told is None else {50: told})


def test_options_of_two_tell_each_other_to_be_ranks() -> None:
    commands = {50 + rank: [PYTHON, "a.py", f"--rank={rank}"] for rank in (4, 5)}
    assert {pid: told.rank for pid, told in ranks_by_words(commands).items()} == {54: 4, 55: 5}


@pytest.mark.parametrize("other", ["--rank=3", "--rank=2 --world-size=4"])
def test_an_option_that_two_share_or_of_two_sizes_is_no_rank(other: str) -> None:
    """``--rank`` of fine-tuning by LoRA is that of a matrix."""
    assert ranks_by_words({50: [PYTHON, "a.py", "--rank=3"], 51: [PYTHON, "a.py", *other.split()]}) == {}
