"""Which process of a job a process is, by its command line.

Scripts of torch that are started once for each rank take it as ``--rank`` (PyTorch's ImageNet example, Megatron's older
scripts) and hand it to ``init_process_group``; others give themselves a title with it (``trainer: rank 3``).

``jax.distributed.initialize`` takes the number of a process as an argument, and scripts take that from their own: as an
option with a telling name (``--process_id``, ``--process_index``: T5X, AXLearn), or as a bare word. Of a bare word only
the siblings on this node tell what it means: those that are connected to one coordinator and run the same but for it.
"""

from __future__ import annotations

import re
from typing import Dict, Hashable, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from collectors.node.files import link
from collectors.node.processes.socket_tables import ESTABLISHED, LISTEN, TcpSocket, held_sockets, read_tables, sockets
from collectors.node.ranks.ray_worker import rank_in

RANK_OPTIONS = ("rank", "global_rank", "world_rank", "dist_rank", "distributed_rank")
WORLD_OPTIONS = ("world_size", "dist_world_size", "distributed_world_size", "nranks", "n_ranks", "num_ranks")
NUMBER_OPTIONS = ("process_id", "process_index", "process_idx", "process_rank", "proc_id", "host_index", "host_idx")
SIZE_OPTIONS = ("num_processes", "process_count", "n_processes", "num_procs", "num_hosts", "host_count")
COORDINATOR_OPTIONS = ("coordinator_address", "distributed_coordinator", "server_addr", "coordinator")
LARGEST = 1024
"""A bare word that is a larger number is a port, a seed or a size."""

_DIGITS = re.compile(r"\d+")
_PORT = re.compile(r":(\d{1,5})$")


class CommandedNumber(NamedTuple):
    """What a command line tells."""

    rank: int
    world_size: Optional[int]
    port: Optional[int] = None
    """At which it meets the others, where that is known."""


def numbers(proc: str, commands: Mapping[int, Sequence[str]]) -> Dict[int, CommandedNumber]:
    """Numbers of processes that have JAX mapped and do not say theirs, by pid; ``commands`` are their words.

    Nobody is numbered by an option with which two of one job have one number: that is the number of something else.
    """
    by_option: Dict[int, CommandedNumber] = {}
    for pid, words in commands.items():
        told = _by_option(words)
        if told is not None:
            by_option[pid] = told
    if len({(told.rank, told.port) for told in by_option.values()}) < len(by_option):
        by_option = {}
    alike: Dict[Hashable, List[int]] = {}
    for pid, words in commands.items():
        if pid not in by_option:
            alike.setdefault(tuple(_DIGITS.sub("#", word) for word in words), []).append(pid)
    found = dict(by_option)
    for pids in alike.values():
        if len(pids) > 1:
            found.update(_by_siblings(proc, {pid: commands[pid] for pid in pids}))
    return found


def ranks_by_words(commands: Mapping[int, Sequence[str]]) -> Dict[int, CommandedNumber]:
    """Ranks of processes that have torch mapped and do not say theirs, by pid; none where two would have one number.

    An option counts beside the size of the job, or another's number: a lone ``--rank=16`` may be that of a matrix.
    """
    found: Dict[int, CommandedNumber] = {}
    bare = 0
    for pid, words in commands.items():
        option = _by_option(words, RANK_OPTIONS, WORLD_OPTIONS)
        told = option or _by_title(words)
        bare += option is not None and option.world_size is None
        if told is not None:
            found[pid] = told
    alike = len({told.rank for told in found.values()}) < len(found)
    sizes = {told.world_size for told in found.values()}
    return {} if alike or len(sizes) > 1 or (bare and len(found) == 1) else found


def _by_title(words: Sequence[str]) -> Optional[CommandedNumber]:
    """By a title that a process gave itself: it is one text, and no path."""
    title = " ".join(words).strip()
    rank = rank_in(title) if len(words) == 1 and not title.startswith(("/", ".")) else None
    return None if rank is None else CommandedNumber(rank, None)


def _by_option(
    words: Sequence[str], numbers: Sequence[str] = NUMBER_OPTIONS, sizes: Sequence[str] = SIZE_OPTIONS
) -> Optional[CommandedNumber]:
    """By ``--process_id=3``, ``--process-index 3``, ``--jax_distributed.process_id=3``."""
    given: Dict[str, int] = {}
    port: Optional[int] = None
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not name.startswith("-"):
            continue
        if not equals:
            value = words[place + 1] if place + 1 < len(words) else ""
        name = name.lstrip("-").rpartition(".")[2].replace("-", "_").lower()
        number, end = _whole(value), _PORT.search(value)
        if number is not None:
            given.setdefault(name, number)
        elif end is not None and name in COORDINATOR_OPTIONS:
            port = int(end.group(1))
    rank = next((given[name] for name in numbers if name in given), None)
    size = next((given[name] for name in sizes if name in given), None)
    if rank is None or (size is not None and rank >= size):
        return None
    return CommandedNumber(rank, size, port)


def _whole(text: str) -> Optional[int]:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _columns(commands: Sequence[Sequence[str]]) -> List[Tuple[int, ...]]:
    """Of bare words at one place, the numbers that no two processes share; those of several places once."""
    found: List[Tuple[int, ...]] = []
    for place in range(1, len(commands[0])):
        if any(words[place - 1].startswith("-") and "=" not in words[place - 1] for words in commands):
            continue  # the value of an option
        column = [_whole(words[place]) for words in commands]
        values = tuple(value for value in column if value is not None and value < LARGEST)
        if len(set(values)) == len(commands) and values not in found:
            found.append(values)
    return found


def _by_siblings(proc: str, commands: Mapping[int, Sequence[str]]) -> Dict[int, CommandedNumber]:
    """Numbers of those that meet at one coordinator, by the one place at which their commands differ in a number."""
    open_sockets = {pid: held_sockets(proc, pid) for pid in commands}
    every = _by_inode(proc, commands)
    rows = {pid: [every[inode] for inode in own if inode in every] for pid, own in open_sockets.items()}
    clients: Dict[str, Set[int]] = {}
    for pid, own in rows.items():
        for row in own:
            if row.state == ESTABLISHED:
                clients.setdefault(row.remote, set()).add(pid)
    found: Dict[int, CommandedNumber] = {}
    for remote in sorted(clients, key=lambda remote: (len(clients[remote]), remote)):
        pids = sorted(clients[remote])
        port = int(remote.rpartition(":")[2], 16)
        servers = [pid for pid in commands if any(r.state == LISTEN and r.local_port == port for r in rows[pid])]
        named = re.compile(r"(?<!\d)%d(?!\d)" % port)
        told = all(any(named.search(word) for word in commands[pid]) for pid in pids)
        columns = _columns([commands[pid] for pid in pids])
        if len(pids) < 2 or not (servers or told) or len(columns) != 1:
            continue
        numbered = dict(zip(pids, columns[0]))
        if all(numbered.get(server, 0) == 0 for server in servers):  # process 0 serves the others
            found.update((pid, CommandedNumber(number, None, port)) for pid, number in numbered.items())
    return found


def _by_inode(proc: str, pids: Iterable[int]) -> Dict[int, TcpSocket]:
    """TCP sockets of the network namespaces that these processes live in."""
    namespaces: Dict[str, int] = {}
    for pid in pids:
        namespaces.setdefault(link("%s/%d/ns/net" % (proc, pid)), pid)
    found: Dict[int, TcpSocket] = {}
    for pid in namespaces.values():
        found.update((row.inode, row) for row in sockets(read_tables("%s/%d/net" % (proc, pid))))
    return found
