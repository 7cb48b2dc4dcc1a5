"""Last words of launchers other than torchrun: DeepSpeed, Accelerate, Slurm, MPI, Ray, Horovod, Lightning."""

from __future__ import annotations

from typing import Iterator, List, Match

from collectors.node import late_re as re
from collectors.node.logs.lines import signals
from collectors.node.logs.records import exceptions
from collectors.node.logs.said import Family, Said, fields, number
from collectors.samples.values import Scalar

_DS_KILL = re.compile(r"[Kk]illing subprocess (?P<pid>\d+)")
_DS_EXIT = re.compile(r"exits with return code = (?P<exitcode>-?\d+)")
_ACCELERATE = re.compile(
    r"subprocess\.CalledProcessError" + exceptions.TOOLS + r": Command '?\[?[^\r\n]*returned non-zero exit status"
    r" (?P<exitcode>-?\d+)|died with <Signals\.(?P<signal>SIG\w+)"
)
_LOCAL = re.compile(r"--local[_-]rank(?:=|', ')(?P<rank>\d{1,6})\b")
"""Among the options of a command that failed."""
_SRUN_TASK = re.compile(
    r"srun: error: (?P<host>\S+): tasks? (?P<tasks>[\d,\-\[\]]+): (?P<reason>Exited with"
    r" exit code (?P<exitcode>\d+)|Out Of Memory|Killed|Terminated|"
    r"Segmentation fault|Aborted|Bus error|[A-Z][\w ]+)"
)
_SLURM_CANCEL = re.compile(
    r"\*\*\* (?:JOB|STEP) (?P<step>[\w.+\[\]-]+)(?: ON (?P<host>\S+))? CANCELLED AT \S+(?: (?P<why>DUE TO [A-Z ]+))?"
    r"|(?:slurmstepd|srun): (?:error: )?[^\r\n]{0,40}?\b(?:JOB|STEP)\b[^\r\n]{0,40}?"
    r"\bCANCELLED (?P<short>DUE TO [A-Z ]+)"
)
_PBS = re.compile(
    r"(?:=>> PBS: |^\s{0,8}(?:PBS: )?)job (?:killed|preempted|deleted)"
    r"(?:: (?P<limit>[^\r\n]{0,120})| \((?P<why>[^)\r\n]{1,80})\))"
    r"|;Job;[^;\s]{1,120};Job (?P<who>deleted at request of \S{1,120})"
)
"""Torque and PBS Professional: ``=>> PBS: job killed: walltime 3625 exceeded limit 3600``."""
_SLURM_NODE = re.compile(
    r"(?:srun: error: )?Node failure on (?P<host>\S+)|(?P<step>\S{1,64}) .{0,300}DUE TO NODE FAILURE"
)
UNREACHED = (
    r"(?:Communication|Socket|Connection|Transport|Zero Bytes|No route|Network|Node |Unable to contact|Protocol|Can't"
    r"|Message|[^\r\n]{0,60}(?:timed out|not responding|unreachable))"
)
"""What Slurm says of a node that it could not reach to launch tasks; any other reason is the node's refusal."""
_SLURM_LAUNCH = re.compile(
    r"Task launch for (?:StepId=)?(?P<step>\S{1,64}) failed on node \[?(?P<host>[\w.-]{1,120})\]?:"
    r" (?P<why>" + UNREACHED + r"[^\r\n]{0,200})"
)
_SLURM_MEMORY = re.compile(
    r"[Dd]etected (?P<count>\d+) oom[_-]kill event(?:.*?StepId=(?P<step>[\w+]+(?:\.\w+)?))?"
    r"|[Ee]xceeded (?:job|step) memory limit(?! at some point)|oom-kill.{0,300}handler"
)
_MPI = re.compile(
    r"(?:mpirun|mpiexec|prterun|orterun|mpiexec\.hydra)\S* (?:noticed that|has exited due to) process rank"
    r" (?P<rank>\d+) with PID (?P<pid>\w+) on\s{1,4}node (?P<host>\S+)"
    r"(?P<reason> exiting improperly| calling \"abort\"| exited(?=\s{0,4}(?:on\s{0,4})?$))?"
    r"(?: exited on signal (?P<signal>\d+)| exited with (?:status|exit code) (?P<exitcode>\d+))?"
)
_LOST_DAEMON = re.compile(
    r"Remote daemon ?: *\S{1,120} on node (?P<host>[\w.:-]{1,120})|^ {1,4}hostname: {1,3}(?P<named>[\w.-]{1,120})$"
)
"""Open MPI to 3.0 says ``hostname:``, later ones ``Remote daemon:`` (``help-errmgr-base.txt``)."""
_SSH = re.compile(
    r"ssh: (?:Could not resolve hostname (?P<host>[\w.-]{1,200})|connect to host (?P<named>[\w.-]{1,200}) port \d+): "
    r"(?P<why>[^\r\n]{0,100})"
)
"""What a launcher starts daemons with says why it cannot."""
_MPI_FIRST = re.compile(r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\][\s#>]+Exit code:\s+(?P<exitcode>\d+)")
_MPI_ABORT = re.compile(r"MPI_ABORT was invoked on rank (?P<rank>\d+)")
_RAY = re.compile(
    r"(?P<reason>The actor (?:died|is dead)[^.\r\n]*|ray\.exceptions\.\w+(?:Died|Crashed"
    r"|OutOfMemory)\w*|A worker died or was killed[^.\r\n]*"
    r"|Task was killed due to the node running low on memory)"
)
_RAYS_WORKER = re.compile(r" Worker PID: (?P<pid>\d{1,9})\b|^\s{1,8}pid: (?P<listed>\d{1,9})\s*$", re.M)
"""The raylet names the worker in its line, the exception in the list that follows."""
_RAYS_HOST = re.compile(r"^\s{1,8}ip: (?P<host>[\d.]{7,15}|[0-9a-f:]{3,39})\s*$", re.M)
"""Where that worker ran, in the same list."""
_RAYS_LIST = re.compile(r"\s{1,8}(?:class_name|actor_id|pid|name|namespace|ip): ")
_VLLM = re.compile(r"(?P<reason>Worker proc VllmWorker-(?P<rank>\d{1,5}) died unexpectedly)")
_POD = re.compile(r"Error pod (?P<host>[\w.-]{1,200}) container \S{1,80} exitCode: (?P<exitcode>\d{1,3})\b")
_KUBECTL = re.compile(r"^command terminated with exit code (?P<exitcode>1[2-5]\d)\s*$")
_EVICTED = re.compile(r"(?:kubelet, (?P<host>[\w.-]{1,120}) {1,40})?The node was low on resource: (?P<why>[\w-]{1,40})")
"""What ``kubectl exec`` says of a command that a signal ended, and the kubelet of a pod that it evicts."""
_POD_MEMORY = re.compile(r"[Rr]eason\"?: {0,12}\"?(?P<reason>OOMKilled)\b")
"""Kubeflow's operator, and what ``kubectl describe pod`` or ``kubectl get pod -o json`` tell."""
_HOROVOD = re.compile(r"Process (?P<rank>\d+) exit with status code (?P<exitcode>\d+)")
_LIGHTNING = re.compile(
    r"\[rank: (?P<rank>\d+)\] Child process with PID (?P<pid>\d+) terminated with code (?P<exitcode>-?\d+)"
)
_SPAWN = re.compile(
    r"process (?P<rank>\d+) terminated with(?:\s{0,4}$| the following error"
    r"| signal (?P<signal>SIG\w+)| exit code (?P<exitcode>-?\d+))",
    re.I,
)
_WORDS = {"Killed": "KILL", "Terminated": "TERM", "Segmentation fault": "SEGV", "Aborted": "ABRT", "Bus error": "BUS"}
_OF_SLURM = ("srun:", "slurm", "***", "oom", "memory limit", "ode failure")
_WHY = {
    "DUE TO TIME LIMIT": "time_limit",
    "DUE TO PREEMPTION": "preemption",
    "DUE TO NODE FAILURE": "node_failure",
    "DUE TO JOB REQUEUE": "job_requeue",
}


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    pbs = _PBS.search(text)
    if pbs is not None:
        why = pbs.group("limit") or pbs.group("why") or pbs.group("who")
        reason = "time_limit" if "walltime" in why else "node_failure" if "node" in why else "other"
        yield Said("slurm.cancelled", {"launcher": "pbs", "reason": reason, "why": why.strip()})
        return
    lost = _LOST_DAEMON.search(text)
    if lost is not None:
        yield Said("launcher.lost_node", {"launcher": "mpi"}, host=lost.group("host") or lost.group("named"))
        return
    unreached = _SSH.search(text)
    if unreached is not None:
        why = unreached.group("why").strip()
        yield Said(
            "launcher.lost_node",
            {"launcher": "ssh", "why": why},
            host=unreached.group("host") or unreached.group("named"),
        )
        return
    evicted = _EVICTED.search(text)
    if evicted is not None:
        why = "the node was low on " + evicted.group("why")
        data = {"launcher": "kubernetes", "reason": "evicted", "why": why}
        yield Said("slurm.cancelled", dict(data), host=evicted.group("host") or "")
        return
    killed = _DS_KILL.search(text)
    if killed is not None:
        yield Said("launcher.killed", {"launcher": "deepspeed", "killed_pid": number(killed.group("pid"))})
        return
    if any(words in text for words in _OF_SLURM):
        said = list(_slurm(text))
        if said:
            yield from said
            return
    for launcher, pattern in (
        ("deepspeed", _DS_EXIT),
        ("accelerate", _ACCELERATE),
        ("mpi", _MPI),
        ("mpi", _MPI_FIRST),
        ("mpi", _MPI_ABORT),
        ("ray", _RAY),
        ("vllm", _VLLM),
        ("kubernetes", _POD),
        ("kubernetes", _POD_MEMORY),
        ("kubernetes", _KUBECTL),
        ("horovod", _HOROVOD),
        ("lightning", _LIGHTNING),
        ("spawn", _SPAWN),
    ):
        match = pattern.search(text)
        if match is not None:
            yield _exit(launcher, match)
            return


def _exit(launcher: str, match: "Match[str]") -> Said:
    data = fields(match, ("exitcode", "rank", "pid"))
    data["launcher"] = launcher
    if "rank" in data:
        data["task"] = data.pop("rank")
    data.pop("pid", None)
    # DeepSpeed puts the command of the rank that it started last in front, whoever failed (launch.py, sigkill_handler)
    local = _LOCAL.search(match.string) if launcher == "accelerate" else None
    if local is not None and "task" not in data:
        data["local_rank"] = number(local.group("rank"))
    signal = data.get("signal")
    if isinstance(signal, str):
        data["signal"] = signals.name(signal)
    elif isinstance(data.get("exitcode"), int):
        named = signals.of_exit(number(str(data["exitcode"])))
        if named:
            data["signal"] = named
    if data.get("reason") == "OOMKilled":
        data["signal"] = "KILL"
    if match.group().startswith("MPI_ABORT"):
        data.update(signal="ABRT", reason="MPI_ABORT")
    host = data.get("host")
    worker = _RAYS_WORKER.search(match.string) if launcher == "ray" else None
    pid = None if worker is None else number(worker.group("pid") or worker.group("listed"))
    ran = _RAYS_HOST.search(match.string) if launcher == "ray" else None
    host = ran.group("host") if ran is not None else host
    return Said("launcher.exit", data, host=host if isinstance(host, str) else "", pid=pid)


def _slurm(text: str) -> Iterator[Said]:
    cancelled = _SLURM_CANCEL.search(text)
    if cancelled is not None:
        data = fields(cancelled)
        why = str(data.pop("why", "") or data.pop("short", "")).strip()
        if why == "DUE TO TASK FAILURE":
            yield Said(
                "launcher.killed", {"launcher": "slurm", "step": data.get("step")}, host=cancelled.group("host") or ""
            )
            return
        data["reason"] = _WHY.get(why, "other" if why else "user")
        yield Said("slurm.cancelled", data, host=cancelled.group("host") or "")
        return
    failed = _SLURM_NODE.search(text)
    if failed is not None:
        yield Said("slurm.cancelled", dict(fields(failed), reason="node_failure"), host=failed.group("host") or "")
        return
    launch = _SLURM_LAUNCH.search(text)
    if launch is not None:
        yield Said("launcher.lost_node", {"launcher": "slurm", "why": launch.group("why")}, host=launch.group("host"))
        return
    task = _SRUN_TASK.search(text)
    if task is not None:
        yield _task(task)
        return
    memory = _SLURM_MEMORY.search(text)
    if memory is not None and ("slurm" in text or "srun" in text or "StepId" in text):
        yield Said("slurm.out_of_memory", fields(memory, ("count",)))


def _task(match: "Match[str]") -> Said:
    data = fields(match, ("exitcode",))
    tasks = expand(match.group("tasks"))
    data["tasks"] = tasks
    if len(tasks) == 1:
        data["task"] = tasks[0]
    data["launcher"] = "slurm"
    reason = str(data["reason"])
    signal = next((name for word, name in _WORDS.items() if reason.startswith(word)), "")
    if not signal and isinstance(data.get("exitcode"), int):
        signal = signals.of_exit(number(match.group("exitcode")))
    if signal:
        data["signal"] = signal
    if reason == "Out Of Memory":
        return Said(
            "slurm.out_of_memory",
            {name: data[name] for name in ("host", "task", "tasks") if name in data},
            host=match.group("host"),
        )
    return Said("launcher.exit", data, host=match.group("host"))


def expand(text: str) -> "List[Scalar]":
    """Numbers of a list as Slurm folds it: ``0-3,7``; at most 4,096."""
    found: List[Scalar] = []
    for part in text.strip("[]").split(","):
        first, _, last = part.partition("-")
        low, high = number(first), number(last or first)
        if low is not None and high is not None and low <= high:
            found.extend(range(low, min(high, low + 4096 - len(found)) + 1))
    return found[:4096]


FAMILY = Family(
    "launchers",
    (
        b"illing subprocess",
        b"exits with return code",
        b"CalledProcessError",
        b"died with <Signals",
        b"srun: error",
        b"slurmstepd",
        b"CANCELLED AT",
        b"oom_kill",
        b"oom-kill",
        b"memory limit",
        b"ode failure on",
        b"noticed that process rank",
        b"has exited due to process rank",
        b"Remote daemon",
        b"PBS: job",
        b";Job deleted",
        b"job preempted (",
        b"job killed: ",
        b"ssh: ",
        b"hostname: ",
        b"Process name: [[",
        b"MPI_ABORT was invoked",
        b"The actor ",
        b"ray.exceptions",
        b"A worker died",
        b"Worker proc Vllm",
        b"exitCode: ",
        b"OOMKilled",
        b"command terminated with",
        b"low on resource: ",
        b"running low on memory",
        b"exit with status code",
        b"terminated with",
    ),
    read,
    unfinished=re.compile(
        r"Process name: \[\[\d+,\d+\],\d+\]\s*$"
        r"|noticed that process rank \d{1,9} with PID [^\r\n]{1,200} exited(?: on)?\s{0,4}$"
        r"|has exited due to process rank \d{1,9} with PID \w{1,12} on(?: node)?\s{0,4}$"
    ),
    listed=(re.compile(r"The actor (?:died|is dead)[^.\r\n]{0,200}\.\s*$"), _RAYS_LIST),
)
