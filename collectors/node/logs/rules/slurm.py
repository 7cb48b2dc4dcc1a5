"""Slurm's words about jobs, tasks and nodes, and Kubernetes' about pods and nodes."""

from __future__ import annotations

from typing import Match, Optional

from collectors.node.logs.rule import Data, Rule, numbers

_WHY = {"TIME LIMIT": "time_limit", "PREEMPTION": "preemption", "NODE FAILURE": "node_failure",
        "JOB REQUEUE": "job_requeue"}  # fmt: skip
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


_UNREACHED = (
    r"(?:Communication|Socket|Connection|Transport|Zero Bytes|No route|Network|Node |Unable to"
    r" contact|Protocol|Can't|Message"
    r"|[^\r\n]{0,60}(?:timed out|not responding|unreachable))"
)
SLURM = (
    Rule("step_killed", "launcher.killed",
         r"\*\*\* STEP (?P<step>[\w.+\[\]-]+)(?: ON (?P<by_host>\S+))? CANCELLED AT \S+ DUE TO TASK FAILURE",
         "slurmstepd: error: *** STEP 77.0 ON n7 CANCELLED AT 2026-11-21T00:12:20 DUE TO TASK FAILURE ***",
         {"launcher": "slurm", "step": "77.0", "by_host": "n7"}, "slurm src/slurmd/slurmstepd/req.c",
         {"launcher": "slurm"}),
    Rule("cancelled", "slurm.cancelled",
         r"\*\*\* (?:JOB|STEP) (?P<step>[\w.+\[\]-]+)(?: ON (?P<by_host>\S+))? CANCELLED AT \S+(?: DUE TO"
         r" (?P<due>[A-Z ]+))?"
         r"|(?:slurmstepd|srun): (?:error: )?[^\r\n]{0,40}?\b(?:JOB|STEP)\b[^\r\n]{0,40}?\bCANCELLED DUE TO"
         r" (?P<due_2>[A-Z ]+)",
         "slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2026-11-21T00:12:20 DUE TO TIME LIMIT ***",
         {"step": "77", "reason": "time_limit", "by_host": "n7"}, "slurm src/slurmd/slurmstepd/req.c", read=_cancelled),
    Rule("node_failure", "slurm.cancelled", r"(?:srun: error: )?Node failure on (?P<by_host>[\w.-]{1,120})",
         "srun: error: Node failure on n7", {"reason": "node_failure", "by_host": "n7"}, "slurm src/api/step_launch.c",
         {"reason": "node_failure"}),
    Rule("launch_lost", "launcher.lost_node",
         r"Task launch for (?:StepId=)?\S{1,64} failed on node \[?(?P<by_host>[\w.-]{1,120})\]?: (?P<why>" + _UNREACHED
         + r"[^\r\n]{0,200})",
         "srun: error: Task launch for StepId=77.0 failed on node n7: Communication connection failure",
         {"launcher": "slurm", "why": "Communication connection failure", "by_host": "n7"},
         "slurm src/api/step_launch.c",
         {"launcher": "slurm"}),
    Rule("task_memory", "slurm.out_of_memory", r"srun: error: (?P<by_host>\S+): tasks? (?P<listed>[\d,\-\[\]]+): Out"
                                               r" Of Memory",
         "srun: error: n7: task 3: Out Of Memory", {"task": 3, "tasks": [3], "by_host": "n7"},
         "slurm src/srun/libsrun/task_state.c", read=_task),
    Rule("task", "launcher.exit",
         r"srun: error: (?P<by_host>\S+): tasks? (?P<listed>[\d,\-\[\]]+): (?P<reason>Exited with exit code"
         r" (?P<exitcode>\d+)"
         r"|[A-Z][\w ]+)", "srun: error: n7: tasks 0-1,3: Exited with exit code 1",
         {"launcher": "slurm", "exitcode": 1, "tasks": [0, 1, 3], "by_host": "n7"},
         "slurm src/srun/libsrun/task_state.c",
         {"launcher": "slurm"}, read=_task),
    Rule("oom", "slurm.out_of_memory",
         r"[Dd]etected (?P<count>\d+) oom[_-]kill event|slurm[^\n]{0,80}[Ee]xceeded (?:job|step) memory limit(?! at"
         r" some point)"
         r"|slurm[^\n]{0,80}oom-kill[^\n]{0,200}handler",
         "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.",
         {"count": 1}, "slurm src/plugins/task/cgroup/task_cgroup_memory.c"),
    Rule("daemon_lost", "launcher.lost_node",
         r"\b[Nn]odes? (?P<by_host>[\w.\[\],-]{1,120}) not responding, setting DOWN"
         r"|\bKilling (?:JobId|job)\S{0,20} on failed node (?P<by_host_2>[\w.-]{1,80})",
         "slurmctld: error: Nodes n[7-8] not responding, setting DOWN",
         {"launcher": "slurm", "why": "it does not respond", "by_host": "n[7-8]"}, "slurm src/slurmctld/ping_nodes.c",
         {"launcher": "slurm", "why": "it does not respond"}),
    Rule("prolog", "launcher.refused",
         r"(?:salloc|srun|sbatch|slurmstepd): (?:error: )?(?P<why>Prolog (?:failure|hung) on node"
         r" (?P<by_host>[\w.-]{1,120}))",
         "slurmstepd: error: Prolog hung on node n7", {"launcher": "slurm", "why": "Prolog hung on node n7",
         "by_host": "n7"},
         "slurm src/slurmd/slurmstepd/mgr.c", {"launcher": "slurm"}),
    Rule("refused", "launcher.refused",
         r"(?:srun|sbatch|salloc)\S{0,30}: error: (?P<why>(?:Unable to (?:create (?:step|job)|allocate"
         r" resources|confirm alloc"
         r"|contact slurm|satisfy)|Batch job submission failed|(?:Job|Step) submit/allocate failed|[Ii]nvalid"
         r" (?:generic resource"
         r"|partition|account|qos|numeric|job credential|--)|task \d{1,7} launch failed|CPU binding outside"
         r"|Job allocation \d{1,12} has been revoked)[^\r\n]{0,200})",
         "srun: error: Unable to allocate resources: Invalid account or account/partition combination specified",
         {"launcher": "slurm"}, "slurm src/common/slurm_errno.c", {"launcher": "slurm"}),
    Rule("refused_step", "launcher.refused",
         r"slurmstepd\S{0,80}: error: (?P<why>execve\(\): [^\r\n]{1,160}|[^\r\n]{0,60}task_prolog [^\r\n]{0,160})"
         r"|Task launch for \S{1,40} failed on node \[?(?P<by_host>[\w.-]{1,120})\]?: (?P<why_2>(?!" + _UNREACHED
         + r")[^\r\n]{1,200})", "slurmstepd: error: execve(): train.sh: Permission denied",
         {"launcher": "slurm", "why": "execve(): train.sh: Permission denied"}, "slurm src/slurmd/slurmstepd/task.c",
         {"launcher": "slurm"}),
    Rule("launch_late", "launcher.refused",
         r"(?:srun|sbatch|salloc)\S{0,30}: (?P<why>(?:error: )?timeout waiting for task launch[^\r\n]{0,80}"
         r"|StepId=\S{1,40} aborted before step completely launched)",
         "srun: error: timeout waiting for task launch, started 0 of 2 tasks", {"launcher": "slurm", "vague": True},
         "slurm src/api/step_launch.c", {"launcher": "slurm", "vague": True}),
    Rule("step_pending", "launcher.pending",
         r"srun: (?P<why>Job \d{1,12} step creation (?:temporarily|still) disabled, retrying \([^)\r\n]{1,80}\))",
         "srun: Job 77 step creation temporarily disabled, retrying (Requested nodes are busy)", {},
         "slurm src/srun/libsrun"),
    Rule("step_placed", "launcher.placed", r"srun: (?:Step created for |job \d{1,12} has been allocated)",
         "srun: Step created for StepId=77.0", {}, "slurm src/srun/libsrun/launch.c"),
)  # fmt: skip


def _told(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, message="its container fails and is started again and again")


KUBERNETES = (
    Rule("pod_evicted", "slurm.cancelled",
         r"(?P<why>Pod ephemeral local storage usage exceeds[^\r\n]{0,80}|Usage of EmptyDir volume [^\r\n]{1,60}"
         r" exceeds the limit"
         r"|Container \S{1,80} exceeded its local ephemeral storage limit|The node had condition: \[\w{3,40}\]"
         r"|The node was low on resource: [\w-]{1,40})",
         "The node was low on resource: memory. Threshold quantity: 100Mi",
         {"launcher": "kubernetes", "reason": "evicted", "why": "The node was low on resource: memory"},
         "kubernetes pkg/kubelet/eviction/helpers.go", {"launcher": "kubernetes", "reason": "evicted"}),
    Rule("pod_preempted", "slurm.cancelled",
         r"(?P<why>Preempted by (?:pod )?\S{1,120}(?: on node (?P<by_host>[\w.-]{1,120}))?|Preempted in order to"
         r" admit critical pod"
         r"|[Pp]reempting to accommodate a higher priority pod)",
         "Preempted by pod 8a7b on node n7", {"launcher": "kubernetes", "reason": "preemption", "by_host": "n7"},
         "kubernetes pkg/scheduler/framework/preemption/preemption.go", {"launcher": "kubernetes",
         "reason": "preemption"}),
    Rule("node_lost", "launcher.lost_node",
         r"Kubelet stopped posting node status|\bNodeNotReady\b[^\r\n]{0,80}?(?:Node (?P<by_host>[\w.-]{1,120})"
         r" )?[Nn]ode is not"
         r" ready|Node (?P<by_host_2>[\w.-]{1,120}) status is now: NodeNotReady",
         "Node n7 status is now: NodeNotReady", {"launcher": "kubernetes", "by_host": "n7"},
         "kubernetes pkg/controller/nodelifecycle/node_lifecycle_controller.go",
         {"launcher": "kubernetes", "why": "it gives no sign of life"}),
    Rule("pod_refused", "launcher.refused",
         r"(?P<why>Failed to pull image \"[^\"\r\n]{1,200}\"[^\r\n]{0,200}|\b(?:ErrImagePull|ImagePullBackOff|Invalid"
         r"ImageName"
         r"|UnexpectedAdmissionError|CreateContainer(?:Config)?Error|RunContainerError)\b|Allocate failed due to"
         r" [^\r\n]{1,160}"
         r"|[Ff]ailed to create containerd task: [^\r\n]{1,200})",
         'Failed to pull image "train:1": rpc error: code = NotFound', {"launcher": "kubernetes"},
         "kubernetes pkg/kubelet/images/image_manager.go", {"launcher": "kubernetes"}),
    Rule("pod_mount", "launcher.refused",
         r"(?P<why>Failed to create pod sandbox: [^\r\n]{1,200}|Unable to attach or mount volumes: [^\r\n]{1,160}"
         r"|MountVolume\.\w{3,20} failed for volume \"[^\"\r\n]{1,120}\"[^\r\n]{0,160})",
         'MountVolume.SetUp failed for volume "data": mount failed', {"launcher": "kubernetes", "of_pod": True},
         "kubernetes pkg/kubelet/volumemanager", {"launcher": "kubernetes", "of_pod": True}),
    Rule("pod_pending", "launcher.pending",
         r"(?P<why>\b0/\d{1,5} nodes are available: [^\r\n]{1,200}|[^\r\n]{0,60}tasks in gang"
         r" unschedulable[^\r\n]{0,120})",
         "0/8 nodes are available: 8 Insufficient nvidia.com/gpu.",
         {"why": "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."},
         "kubernetes pkg/scheduler/framework/types.go"),
    Rule("pod_started", "launcher.placed", r"Started container (?!\S{1,80} (?:in|on)\b)", "Started container main",
         {"started": True}, "kubernetes pkg/kubelet/kuberuntime/kuberuntime_container.go", {"started": True}),
    Rule("pod_placed", "launcher.placed", r"Successfully assigned \S{1,200} to ",
         "Successfully assigned ml/train-worker-0 to n7", {}, "kubernetes pkg/scheduler/schedule_one.go"),
    Rule("pod_memory", "launcher.exit", r"[Rr]eason\"?: {0,12}\"?(?P<reason>OOMKilled)\b",
         "      Reason:       OOMKilled",
         {"launcher": "kubernetes", "reason": "OOMKilled", "signal": "KILL"}, "kubectl pkg/describe/describe.go",
         {"launcher": "kubernetes", "signal": "KILL"}),
    Rule("pod_exit", "launcher.exit",
         r"Error pod (?P<by_host>[\w.-]{1,200}) container \S{1,80} exitCode: (?P<exitcode>\d{1,3})\b"
         r"|^command terminated with exit code (?P<exitcode_2>1[2-5]\d)\s*$", "command terminated with exit code 137",
         {"launcher": "kubernetes", "exitcode": 137, "signal": "KILL"}, "kubectl pkg/cmd/exec/exec.go",
         {"launcher": "kubernetes"}),
    Rule("pod_restarts", "log.error", r"Back-off (?:\S{1,12} )?restarting failed container|\bCrashLoopBackOff\b",
         "Back-off 5m0s restarting failed container=main", {"told": "exit"},
         "kubernetes pkg/kubelet/kuberuntime/kuberuntime_manager.go", {"told": "exit"}, read=_told),
)  # fmt: skip
