"""Slurm's words about jobs, tasks and nodes, and Kubernetes' about pods and nodes."""

from __future__ import annotations

from typing import Match, Optional

from collectors.node.logs.rule import Data, Example, Rule, numbers

_WHY = {
    "TIME LIMIT": "time_limit",
    "PREEMPTION": "preemption",
    "NODE FAILURE": "node_failure",
    "JOB REQUEUE": "job_requeue",
}


_SIGNALS = {"Killed": "KILL", "Terminated": "TERM", "Segmentation fault": "SEGV", "Aborted": "ABRT", "Bus error": "BUS"}


def _cancelled(match: "Match[str]", data: Data) -> Optional[Data]:
    due = str(data.pop("due", "")).strip()
    return dict(data, reason=_WHY.get(due, "other" if due else "user"))


def _task(match: "Match[str]", data: Data) -> Optional[Data]:
    tasks = numbers(match.group("listed"))
    data.pop("listed", None)
    data["tasks"] = tasks
    if len(tasks) == 1:
        data["task"] = tasks[0]
    signal = next((name for word, name in _SIGNALS.items() if str(data.get("reason", "")).startswith(word)), "")
    return dict(data, signal=signal) if signal else data


SLURM = (
    Rule("step_killed", "launcher.killed",
         r"\*\*\* STEP (?P<step>[\w.+\[\]-]+)(?: ON (?P<by_host>\S+))? CANCELLED AT \S+ DUE TO TASK FAILURE",
         Example("slurmstepd: error: *** STEP 77.0 ON n7 CANCELLED AT 2026-11-21T00:12:20 DUE TO TASK FAILURE ***",
         {"launcher": "slurm", "step": "77.0", "by_host": "n7"}, "slurm req.c"),
         {"launcher": "slurm"}),
    Rule("cancelled", "slurm.cancelled",
         r"\*\*\* (?:JOB|STEP) (?P<step>[\w.+\[\]-]+)(?: ON (?P<by_host>\S+))? CANCELLED AT \S+(?: DUE TO "
         r"(?P<due>[A-Z ]+))?|(?:slurmstepd|srun): (?:error: )?[^\r\n]{0,40}?\b(?:JOB"
         r"|STEP)\b[^\r\n]{0,40}?\bCANCELLED DUE TO (?P<due_2>[A-Z ]+)",
         Example("slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2026-11-21T00:12:20 DUE TO TIME LIMIT ***",
         {"step": "77", "reason": "time_limit", "by_host": "n7"}, "slurm req.c"),
         read=_cancelled),
    Rule("node_failure", "slurm.cancelled",
         r"(?:srun: error: )?Node failure on (?P<by_host>[\w.-]{1,120})", Example("srun: error: Node failure on n7",
         {"reason": "node_failure", "by_host": "n7"}, "slurm step_launch.c"), {"reason": "node_failure"}),
    Rule("task_memory", "slurm.out_of_memory",
         r"srun: error: (?P<by_host>\S+): tasks? (?P<listed>[\d,\-\[\]]+): Out Of Memory",
         Example("srun: error: n7: task 3: Out Of Memory", {"task": 3, "tasks": [3], "by_host": "n7"},
         "slurm task_state.c"), read=_task),
    Rule("task", "launcher.exit",
         r"srun: error: (?P<by_host>\S+): tasks? (?P<listed>[\d,\-\[\]]+): (?P<reason>Exited with exit code "
         r"(?P<exitcode>\d+)|[A-Z][\w ]+)", Example("srun: error: n7: tasks 0-1,3: Exited with exit code 1",
         {"launcher": "slurm", "exitcode": 1, "tasks": [0, 1, 3], "by_host": "n7"},
         "slurm task_state.c"), {"launcher": "slurm"}, read=_task),
    Rule("oom", "slurm.out_of_memory",
         r"[Dd]etected (?P<count>\d+) oom[_-]kill event|slurm[^\n]{0,80}[Ee]xceeded (?:job"
         r"|step) memory limit(?! at some point)|slurm[^\n]{0,80}oom-kill[^\n]{0,200}handler",
         Example("slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have "
         "been OOM Killed.", {"count": 1}, "slurm src/plugins/task/cgroup/task_cgroup_memory.c")),
)  # fmt: skip


KUBERNETES = (
    Rule("pod_evicted", "slurm.cancelled",
         r"(?P<why>Pod ephemeral local storage usage exceeds[^\r\n]{0,80}"
         r"|Usage of EmptyDir volume [^\r\n]{1,60} exceeds the limit"
         r"|Container \S{1,80} exceeded its local ephemeral storage limit|The node had condition: \[\w{3,40}\]"
         r"|The node was low on resource: [\w-]{1,40})",
         Example("The node was low on resource: memory. Threshold quantity: 100Mi",
         {"launcher": "kubernetes", "reason": "evicted", "why": "The node was low on resource: memory"},
         "kubernetes helpers.go"), {"launcher": "kubernetes", "reason": "evicted"}),
    Rule("pod_preempted", "slurm.cancelled",
         r"(?P<why>Preempted by (?:pod )?\S{1,120}(?: on node (?P<by_host>[\w.-]{1,120}))?"
         "|Preempted in order to admit critical pod|[Pp]reempting to accommodate a higher priority pod)",
         Example("Preempted by pod 8a7b on node n7",
         {"launcher": "kubernetes", "reason": "preemption", "by_host": "n7"},
         "kubernetes preemption.go"),
         {"launcher": "kubernetes", "reason": "preemption"}),
    Rule("node_lost", "launcher.lost_node",
         r"Kubelet stopped posting node status|\bNodeNotReady\b[^\r\n]{0,80}?(?:Node (?P<by_host>[\w.-]{1,120}) "
         r")?[Nn]ode is not ready|Node (?P<by_host_2>[\w.-]{1,120}) status is now: NodeNotReady",
         Example("Node n7 status is now: NodeNotReady", {"launcher": "kubernetes", "by_host": "n7"},
         "kubernetes node_lifecycle_controller.go"),
         {"launcher": "kubernetes", "why": "it gives no sign of life"}),
    Rule("pod_memory", "launcher.exit",
         r"[Rr]eason\"?: {0,12}\"?(?P<reason>OOMKilled)\b", Example("      Reason:       OOMKilled",
         {"launcher": "kubernetes", "reason": "OOMKilled", "signal": "KILL"}, "kubectl pkg/describe/describe.go"),
         {"launcher": "kubernetes", "signal": "KILL"}),
)  # fmt: skip
