"""What torch, launchers, inference engines and JAX say in the logs of ranks, a row a finding."""

from __future__ import annotations

from collectors.samples.logs import LogEvent
from hangtop.diagnosis.evidence.event_fields import text_of
from hangtop.diagnosis.failures.record import ENDING_SIGNALS, signal_name
from hangtop.diagnosis.rules.engine import EventRow, Told

WATCHDOG_SAYS_MORE = (
    Told("torch.watchdog_timeout"), Told("torch.watchdog_status"), Told("torch.watchdog_error"),
    Told("torch.watchdog_stuck"),
)  # fmt: skip
TOGETHER = ("PjRT_Client_Connect", "RegisterTask", "CoordinationServiceConnect")
"""What the barriers are called by which JAX's processes come together."""
VICTIMS = frozenset({"connection", "interrupt", "child_failed", "store", "rendezvous", "collective_timeout"})
"""Signatures of errors that tell of somebody else's end, or of a wait."""
ALL_WORKERS = "Dump the stacks of all workers while it hangs (py-spy dump): the odd one is to blame."


def _at_the_start(event: LogEvent) -> bool:
    return text_of(event, "barrier").startswith(TOGETHER)


def _later(event: LogEvent) -> bool:
    return not _at_the_start(event)


def _failed_by_itself(event: LogEvent) -> bool:
    """Torch's word that NCCL failed: no error of CUDA, which has a rule of its own, no time-out, no lost peer."""
    error = text_of(event, "error")
    return event.data.get("consequence") is not True and not error.startswith("CUDA") and "imeout" not in error


def _no_consequence(event: LogEvent) -> bool:
    return event.data.get("consequence") is not True and text_of(event, "what") != "CUDA"


def _fatal(event: LogEvent) -> bool:
    """A failure of the rank's own that the run did not outlive; a launcher's SIGTERM and Control-C are none."""
    outlived = event.data.get("survived") is True or event.data.get("consequence") is True
    return not outlived and signal_name(event) not in ENDING_SIGNALS and text_of(event, "signature") not in VICTIMS


TORCH = (
    EventRow(
        event=Told("torch.unused_parameters"), kind="unused_parameters", weight=0.93,
        example={"names": ["head.weight"]},
        summary="parameters got no gradient in this step ({who})", details=(": {names}", " (number {indices})"),
        advice="Use every parameter in the loss on every rank, or find_unused_parameters=True.",
    ),
    EventRow(
        event=Told("torch.marked_twice"), kind="unused_parameters", weight=0.93,
        unless=(Told("torch.unused_parameters"),), example={"name": "head.weight"},
        summary="parameter {name} got its gradient twice in one step ({who})",
        advice="Static graphs with reused parameters need static_graph=True; check gradient checkpointing.",
    ),
    EventRow(
        event=Told("torch.taken_down"), kind="watchdog_timeout", weight=0.5, over=True, last_resort=True,
        unless=WATCHDOG_SAYS_MORE, accuses=False,
        summary="torch's watchdog took {who} down: NCCL operations failed or timed out, which ones is not in what was "
        "read",
        advice="A consequence: look at the lines before, and at the logs of the other ranks.",
    ),
    EventRow(
        event=Told("torch.watchdog_error"), kind="rank_crashed", weight=0.5, over=True, last_resort=True,
        where=_failed_by_itself, example={"error": "NCCL error: unhandled system error"},
        other={"error": "NCCL error: remote process exited", "consequence": True},
        unless=(Told("torch.watchdog_timeout"),), summary="{who} failed in NCCL: {error}",
        advice="NCCL says why in a warning that is not here: run with NCCL_DEBUG=WARN, look at the logs of all ranks.",
    ),
    EventRow(
        event=Told("nccl_tests.failed"), kind="rank_crashed", weight=0.75, where=_no_consequence, last_resort=True,
        example={"what": "NCCL", "error": "internal error"}, other={"what": "NCCL", "consequence": True},
        summary="nccl-tests stopped{on}: {what} said {error}",
        advice="Look at the host that is named first. NCCL_DEBUG=WARN makes NCCL say why.",
    ),
)  # fmt: skip

LIMITS = (
    EventRow(
        event=Told("host.memory"), kind="host_out_of_memory", weight=0.88,
        summary="{who} could not get memory of the host", details=(": it asked for {tried}",),
        advice="Look at the node's memory and the job's limit (cgroup, Slurm --mem): fewer data loader workers, less "
        "pinned or cached data, or more memory. Where a mapping was refused: vm.max_map_count.",
    ),
    EventRow(
        event=Told("host.processes"), kind="process_limit", weight=0.85,
        summary="{who} could not start another process or thread",
        advice="Look at ulimit -u, the cgroup's pids.max and kernel.threads-max; fewer data loader workers and "
        "OMP_NUM_THREADS=1 need less.",
    ),
    EventRow(
        event=Told("host.open_files"), kind="open_files_limit", weight=0.9,
        summary="file descriptors ran out on {who}", advice="Raise the limit of open files (ulimit -n 1048576).",
    ),
)  # fmt: skip

ENGINES = (
    EventRow(
        event=Told("engine.timeout"), kind="watchdog_timeout", weight=0.6, accuses=False,
        example={"call": "execute_model", "seconds": 300}, advice=ALL_WORKERS,
        summary="the engine's {call} got no answer", details=(" on tensor-parallel worker {worker}", " for {seconds}"),
    ),
    EventRow(
        event=Told("engine.waiting"), kind="collective_stalled", weight=0.6, accuses=False, least=3,
        unless=(Told("engine.timeout"),), example={"seconds": 60}, advice=ALL_WORKERS,
        summary="workers of the engine have taken nothing of what was broadcast to them, {seconds} at a time",
    ),
    EventRow(
        event=Told("monitor.silent"), kind="watchdog_timeout", weight=0.7, over=True,
        unless=(Told("job.finished"), Told("elastic.finished")), example={"seconds": 600}, advice=ALL_WORKERS,
        summary="the monitor of {who} got no heartbeat", details=(" for {seconds}",),
    ),
)  # fmt: skip

JAX = (
    EventRow(
        event=Told("jax.barrier"), kind="store_timeout", weight=0.8, where=_at_the_start, ranks_in="missing",
        example={"barrier": "PjRT_Client_Connect", "missing": [3]}, other={"barrier": "sync_3", "missing": [3]},
        summary="JAX's processes did not come together: {who} missing at its barrier {barrier}",
        details=("; {joined} of {expected} came",),
        advice="Look at those processes: did they start, and can they reach the coordinator?",
    ),
    EventRow(
        event=Told("jax.barrier"), kind="watchdog_timeout", weight=0.8, where=_later, ranks_in="missing",
        example={"barrier": "sync_3", "missing": [3]}, other={"barrier": "PjRT_Client_Connect", "missing": [3]},
        summary="JAX's barrier {barrier} timed out: {who} did not come", details=("; {joined} of {expected} came",),
        advice="The time-out is a consequence: look at what kept those processes (their last log lines, their stacks).",
    ),
    EventRow(
        event=Told("jax.lost"), kind="rank_killed", weight=0.75, ranks_in="tasks", silent_only=True,
        example={"tasks": [3]},
        summary="{who} sends JAX's coordinator no heartbeats, or was started anew: its process died, was pre-empted, "
        "or its node cannot be reached",
        advice="Look at that process's own log and at its node: an out-of-memory kill, a pre-emption, a lost network.",
    ),
    EventRow(
        event=Told("jax.no_coordinator"), kind="store_timeout", weight=0.7,
        unless=(Told("jax.barrier"), Told("jax.lost")), example={"address": "10.0.0.1"},
        summary="{who} did not reach JAX's coordinator", details=(" at {address}", ":{port}"),
        advice="Does process 0 run, can its address and port be reached from every node, and did every process start "
        "with the same number of processes?",
    ),
    EventRow(
        event=Told("jax.waiting"), kind="collective_stalled", weight=0.5, over=True, unless=(Told("jax.unstuck"),),
        example={"what": "rendezvous of all-reduce"}, summary="XLA's threads wait for others that do not come: {what}",
        advice="One device or process is missing or runs another program: look at the other processes' logs.",
    ),
)  # fmt: skip

LAUNCHERS = (
    EventRow(
        event=Told("launcher.lost_node"), kind="node_unreachable", weight=0.85,
        summary="the launcher cannot reach a node{on}", details=(": {why}",),
        advice="Look at that node: did it restart or run out of memory, was the daemon killed, is its network up?",
    ),
)  # fmt: skip

FALLBACK = (
    EventRow(
        event=Told("log.error", {"told": ("exception", "exit")}), kind="rank_crashed", weight=0.4, over=True,
        last_resort=True, where=_fatal, example={"type": "ValueError", "message": "bad shard"},
        other={"told": "level", "message": "retrying"},
        summary="{who} ended with an error: ", details=("{type}: ", "{message}", "exit code {exitcode}"),
        advice="Only its last words are here: look at the traceback in that rank's own output.",
    ),
)  # fmt: skip
"""The fatal line of a rank of which nothing else is known."""

ROWS = (*TORCH, *LIMITS, *ENGINES, *JAX, *LAUNCHERS, *FALLBACK)
