"""Words of Slurm, Kubernetes and Ray about jobs, tasks and nodes."""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs.rule import SIGNAL_WORDS, Data, Example, Rule, number, numbers

_WHY = {"TIME LIMIT": "time_limit", "PREEMPTION": "preemption", "NODE FAILURE": "node_failure",
        "JOB REQUEUE": "job_requeue"}  # fmt: skip


def _cancelled(_: "Match[str]", data: Data) -> Optional[Data]:
    due = str(data.pop("due", "")).strip()
    return dict(data, reason=_WHY.get(due, "other" if due else "user"))


def _task(match: "Match[str]", data: Data) -> Optional[Data]:
    tasks = numbers(match.group("listed"))
    data.pop("listed", None)
    data["tasks"] = tasks
    if len(tasks) == 1:
        data["task"] = tasks[0]
    signal = SIGNAL_WORDS.get(str(data.get("reason", "")).upper().partition(" ")[0], "")
    return dict(data, signal=signal) if signal else data


def _actor(match: "Match[str]", data: Data) -> Optional[Data]:
    worker = re.search(r"(?m) Worker PID: (\d{1,9})\b|^\s{1,8}pid: (\d{1,9})\s*$", match.string)
    host = re.search(r"(?m)^\s{1,8}ip: ([\d.]{7,15}|[0-9a-f:]{3,39})\s*$", match.string)
    if worker is not None:
        data["by_pid"] = number(worker.group(1) or worker.group(2))
    return data if host is None else dict(data, by_host=host.group(1))


RULES = (
    Rule("slurm.cancelled", "CANCELLED AT|CANCELLED DUE TO|Node failure on",
         r"\*\*\* (?:JOB|STEP) (?P<step>[\w.+\[\]-]+)(?: ON (?P<by_host>\S+))? CANCELLED AT (?!\S+ DUE TO TASK)\S+"
         r"(?: DUE TO (?P<due>[A-Z ]+))?|(?:slurmstepd|srun): [^\r\n]{0,80}?\bCANCELLED DUE TO (?P<due_2>[A-Z ]+)",
         Example("slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2026-11-21T00:12:20 DUE TO TIME LIMIT ***",
                 {"step": "77", "reason": "time_limit", "by_host": "n7"}, "slurm req.c"), read=_cancelled),
    Rule("slurm.cancelled", "Node failure on", r"Node failure on (?P<by_host>[\w.-]{1,120})",
         Example("srun: error: Node failure on n7", {"reason": "node_failure", "by_host": "n7"}, "slurm step_launch.c"),
         {"reason": "node_failure"}),
    Rule("slurm.out_of_memory", "Out Of Memory",
         r"srun: error: (?P<by_host>\S+): tasks? (?P<listed>[\d,\-\[\]]+): Out Of Memory",
         Example("srun: error: n7: task 3: Out Of Memory", {"task": 3, "tasks": [3], "by_host": "n7"},
                 "slurm task_state.c"), read=_task),
    Rule("launcher.exit", "srun: error: ",
         r"srun: error: (?P<by_host>\S+): tasks? (?P<listed>[\d,\-\[\]]+): (?P<reason>Exited with exit code "
         r"(?P<exitcode>\d+)|(?!Out Of Memory)[A-Z][\w ]+)",
         Example("srun: error: n7: tasks 0-1,3: Exited with exit code 1",
                 {"launcher": "slurm", "exitcode": 1, "tasks": [0, 1, 3], "by_host": "n7"}, "slurm task_state.c"),
         {"launcher": "slurm"}, read=_task),
    Rule("slurm.out_of_memory", "kill event|memory limit|oom-kill",
         r"[Dd]etected \d+ oom[_-]kill event|slurm[^\n]{0,80}[Ee]xceeded (?:job|step) memory limit(?! at some point)"
         r"|slurm[^\n]{0,80}oom-kill[^\n]{0,200}handler",
         Example("Detected 1 oom_kill event", {}, "slurm src/plugins/task/cgroup/task_cgroup_memory.c")),
    Rule("launcher.exit", "OOMKilled", r"[Rr]eason\"?: {0,12}\"?(?P<reason>OOMKilled)\b",
         Example("      Reason:       OOMKilled", {"launcher": "kubernetes", "reason": "OOMKilled", "signal": "KILL"},
                 "kubectl pkg/describe/describe.go"), {"launcher": "kubernetes", "signal": "KILL"}),
    Rule("launcher.exit", "The actor died|The actor is dead|ray.exceptions.|worker died or was killed|running low on",
         r"(?P<reason>The actor (?:died|is dead)[^.\r\n]*|ray\.exceptions\.\w+(?:Died|Crashed|OutOfMemory)\w*"
         r"|A worker died or was killed[^.\r\n]*|Task was killed due to the node running low on memory)",
         Example("The actor died because of an error raised in its creation task\n\tpid: 71\n\tip: 10.0.0.7",
                 {"launcher": "ray", "reason": "The actor died because of an error raised in its creation task",
                  "by_pid": 71, "by_host": "10.0.0.7"}, "ray core_worker.cc"), {"launcher": "ray"}, read=_actor,
         begins=r"The actor (?:died|is dead)[^\r\n]{0,200}[.:]?\s*$"),
    Rule("launcher.lost_node", "marked dead because|Node IP: |Raylet is terminated",
         r"(?:address|ip): (?P<by_host>[\w.:-]{1,80})[^\r\n]{0,120} has been marked dead because the (?:detector"
         r"|monitor)|the node it was running on is dead or unavailable\. Node IP: (?P<by_host_2>[\w.:-]{1,80}),|Raylet "
         r"is terminated(?:: ip=(?P<by_host_3>[\w.:-]{1,80}),|\.)[^\r\n]{0,120}Termination is unexpected",
         Example("address: 10.0.0.7 and node name: 10.0.0.7 has been marked dead because the detector",
                 {"launcher": "ray", "by_host": "10.0.0.7"}, "ray gcs_node_manager.cc"),
         {"launcher": "ray", "why": "it gives no sign of life"}),
)  # fmt: skip
