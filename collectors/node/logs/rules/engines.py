"""Inference engines and monitors whose workers do not answer (vLLM, SGLang, TensorRT-LLM, NVRx), Ray, and JAX."""

from __future__ import annotations

from typing import List, Match, Optional

from collectors.node import late_re as re
from collectors.node.logs.rule import Data, Rule, number
from collectors.samples.values import Scalar

_TASK = r"/job:[\w-]{1,60}/replica:\d{1,6}/task:"
_TASKS = re.compile(_TASK + r"(\d{1,6})")


def _tasks(text: str) -> List[Scalar]:
    numbers: List[Scalar] = []
    numbers.extend(sorted({int(found) for found in _TASKS.findall(text)}))
    return numbers


def _barrier(match: "Match[str]", data: Data) -> Optional[Data]:
    """With who is missing, where the text lists them, and how many came."""
    came = re.search(r"# of tasks that reached the barrier: (\d{1,9})/(\d{1,9})|\b(\d{1,9})/(\d{1,9}) tasks reached"
                     r" the barrier",
                     match.string)  # fmt: skip
    if came is not None:
        data["joined"] = number(came.group(1) or came.group(3))
        data["expected"] = number(came.group(2) or came.group(4))
    absent = re.search(r"[Tt]imed out task names:", match.string)
    if absent is not None:
        data["missing"] = _tasks(match.string[absent.end() :])
    return data


def _lost(match: "Match[str]", data: Data) -> Optional[Data]:
    tasks = _tasks(match.string[match.start() :])
    return dict(data, tasks=tasks) if tasks else None


def _stuck(match: "Match[str]", data: Data) -> Optional[Data]:
    return dict(data, ended="Termination timeout" in match.group())


def _scheduler(match: "Match[str]", data: Data) -> Optional[Data]:
    label = re.search(r"\b(?:TP|tp_rank=)(\d{1,4})\b", match.string[:120])
    return data if label is None else dict(data, worker=number(label.group(1)))


ENGINES = (
    Rule("waiting", "engine.waiting", r"No available (?:shared memory broadcast )?block found in"
                                      r" (?P<seconds>\d{1,6}) ?second",
         "INFO 05-28 14:44:28 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.",
         {"seconds": 60}, "vllm vllm/distributed/device_communicators/shm_broadcast.py"),
    Rule("dumped", "engine.dumped", r"Dumping input data for V\d LLM engine",
         "ERROR 05-28 14:44:28 [dump_input.py:69] Dumping input data for V1 LLM engine (v0.9.1) with config: x", {},
         "vllm vllm/logging_utils/dump_input.py"),
    Rule("rpc_timeout", "engine.timeout", r"RPC call to (?P<call>\w{1,60}) timed out",
         "TimeoutError: RPC call to execute_model timed out.", {"call": "execute_model"},
         "vllm vllm/v1/executor/multiproc_executor.py"),
    Rule("scheduler", "engine.timeout", r"Watchdog timeout \(self\.watchdog_timeout=(?P<seconds>\d{1,6})",
         "[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)",
         {"call": "scheduler", "seconds": 300}, "sglang python/sglang/srt/managers/scheduler.py",
         {"call": "scheduler"}, read=_scheduler),
    Rule("health", "engine.timeout",
         r"Health check failed\. Server couldn't get a response from (?P<call>\w{2,40}) for last (?P<seconds>\d{1,6})",
         "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
         {"call": "detokenizer", "seconds": 20}, "sglang python/sglang/srt/entrypoints/http_server.py"),
    Rule("trt_hang", "engine.timeout", r"Hang detected on rank (?P<worker>\d{1,6}) in (?P<call>\w{2,40})",
         "Hang detected on rank 3 in PyExecutor", {"worker": 3, "call": "PyExecutor"},
         "TensorRT-LLM tensorrt_llm/_torch/pyexecutor/hang_detector.py"),
    Rule("monitor", "monitor.silent",
         r"\[RankMon(?:itor)?Server(?:\d{0,10}@(?P<by_host>[\w.-]{1,120}))?:(?P<by_rank>\d{1,7})\] "
         r"Did not get (?:initial|subsequent) heartbeat\. Waited (?P<seconds>\d{1,7})",
         "[RankMonitorServer:3] Did not get subsequent heartbeat. Waited 60.00 seconds.", {"seconds": 60, "by_rank": 3},
         "nvidia-resiliency-ext fault_tolerance/rank_monitor_server.py"),
    Rule("vllm_worker", "launcher.exit", r"(?P<reason>Worker proc VllmWorker-(?P<task>\d{1,5}) died unexpectedly)",
         "ERROR [multiproc_executor.py:140] Worker proc VllmWorker-2 died unexpectedly, shutting down executor.",
         {"launcher": "vllm", "task": 2}, "vllm vllm/v1/executor/multiproc_executor.py", {"launcher": "vllm"}),
)  # fmt: skip


def _ray(match: "Match[str]", data: Data) -> Optional[Data]:
    worker = re.search(r"(?m) Worker PID: (\d{1,9})\b|^\s{1,8}pid: (\d{1,9})\s*$", match.string)
    host = re.search(r"(?m)^\s{1,8}ip: ([\d.]{7,15}|[0-9a-f:]{3,39})\s*$", match.string)
    if worker is not None:
        data["by_pid"] = number(worker.group(1) or worker.group(2))
    if host is not None:
        data["by_host"] = host.group(1)
    return data


RAY = (
    Rule("actor", "launcher.exit",
         r"(?P<reason>The actor (?:died|is dead)[^.\r\n]*|ray\.exceptions\.\w+(?:Died|Crashed|OutOfMemory)\w*"
         r"|A worker died or was killed[^.\r\n]*|Task was killed due to the node running low on memory)",
         "The actor died because of an error raised in its creation task\n\tpid: 71\n\tip: 10.0.0.7",
         {"launcher": "ray", "reason": "The actor died because of an error raised in its creation task", "by_pid": 71,
          "by_host": "10.0.0.7"}, "ray src/ray/core_worker/core_worker.cc", {"launcher": "ray"}, read=_ray,
         begins=r"The actor (?:died|is dead)[^\r\n]{0,200}[.:]?\s*$",
         item=r"\s{1,8}(?:class_name|actor_id|pid|name|namespace|ip): "),
    Rule("raylet", "launcher.lost_node",
         r"(?:address|ip): (?P<by_host>[\w.:-]{1,80})[^\r\n]{0,120} has been marked dead because the (?:detector"
         r"|monitor)"
         r"|the node it was running on is dead or unavailable\. Node IP: (?P<by_host_2>[\w.:-]{1,80}),"
         r"|Raylet is terminated(?:: ip=(?P<by_host_3>[\w.:-]{1,80}),|\.)[^\r\n]{0,120}Termination is unexpected"
         r"|The node with (?:client|node) id:? \w{8,64} has been marked dead because the (?:detector|monitor)",
         "The node with node id: 8a7b9c1d2e and address: 10.0.0.7 and node name: 10.0.0.7 has been marked dead"
         " because the"
         " detector has missed too many heartbeats from it.", {"launcher": "ray", "by_host": "10.0.0.7"},
         "ray src/ray/gcs/gcs_server/gcs_node_manager.cc", {"launcher": "ray", "why": "it gives no sign of life"}),
    Rule("no_place", "launcher.pending",
         r"(?P<why>No available node types can fulfill resource request[^\r\n]{0,120}"
         r"|The following resource request cannot be scheduled right now[^\r\n]{0,160})",
         "Error: No available node types can fulfill resource request {'GPU': 8.0}",
         {"why": "No available node types can fulfill resource request {'GPU': 8.0}"},
         "ray python/ray/autoscaler/_private/event_summarizer.py"),
)  # fmt: skip

JAX = (
    Rule("barrier", "jax.barrier", r"Barrier timed out\. (?:Id|Barrier_id): (?P<barrier>[^\s,]{1,200}?)[.,]?(?:\s|$)"
         r"|DEADLINE_EXCEEDED: (?P<barrier_2>GetKeyValue)\(\) timed out",
         "Barrier timed out. Id: save::0. Look at logs to debug further.\n# of tasks that reached the barrier:"
         " 3/4.\nThe first"
         " task at the barrier: /job:w/replica:0/task:0. Some timed out task names:\n/job:w/replica:0/task:2",
         {"barrier": "save::0", "joined": 3, "expected": 4, "missing": [2]},
         "tsl/distributed_runtime/coordination/coordination_service.cc", read=_barrier,
         begins=r"Barrier timed out[^\r\n]{0,600}(?:further\.|task names:)\s*$",
         item=r"\s*(?:" + _TASK + r"\d{1,6}\s*$|# of tasks that reached|The first task at the barrier)"),
    Rule("stuck", "jax.waiting",
         r"This thread has been waiting for `(?P<what>[^`;]{1,400})[`;][^\r\n]{0,500}? for (?P<seconds>\d{1,6})"
         r" seconds and may be"
         r" stuck|Termination timeout for `(?P<what_2>[^`;]{1,400})[`;][^\r\n]{0,500}? of (?P<seconds_2>\d{1,6})"
         r" seconds exceeded",
         "E1 rendezvous.cc:38] This thread has been waiting for `all reduce` for 20 seconds and may be stuck:",
         {"what": "all reduce", "seconds": 20, "ended": False}, "xla/service/rendezvous.cc", read=_stuck),
    Rule("unstuck", "jax.unstuck", r"Thread is unstuck! Warning above was a false-positive",
         "Thread is unstuck! Warning above was a false-positive. Perhaps the timeout is too short.", {},
         "xla/service/rendezvous.cc"),
    Rule("lost", "jax.lost", r"(?:unhealthy \()?stopped sending heartbeats|" + _TASK + r"\d{1,6} heartbeat timeout",
         "UNAVAILABLE: Task /job:w/replica:0/task:3 heartbeat timeout. This indicates that the remote task has failed",
         {"tasks": [3], "how": "heartbeat"}, "tsl/distributed_runtime/coordination/coordination_service.cc",
         {"how": "heartbeat"}, read=_lost, begins=r"stopped sending heartbeats\)\s*:\s*$", item=r"\s*" + _TASK),
    Rule("restarted", "jax.lost",
         _TASK + r"\d{1,6} (?:has been restarted|unexpectedly tried to connect with a different incarnation)",
         "/job:w/replica:0/task:1 unexpectedly tried to connect with a different incarnation.",
         {"tasks": [1], "how": "restarted"}, "tsl/distributed_runtime/coordination/coordination_service.cc",
         {"how": "restarted"}, read=_lost),
    Rule("victim", "jax.victim",
         r"(?:JAX distributed service|coordinator) detected (?:fatal errors|missing heartbeats)|indicates that"
         r" another task died",
         "Terminating process because the JAX distributed service detected fatal errors. This most likely indicates"
         " that"
         " another task died", {}, "xla/pjrt/distributed/client.h"),
    Rule("no_coordinator", "jax.no_coordinator",
         r"(?:oordination|PjRT|jax|Xla)[^\n]{0,300}?(?P<what>failed to connect to all addresses|agent in error status:"
         r" DEADLINE_EXCEEDED)(?:[^\r\n]{0,200}?ipv[46]:(?P<address>[\w.%\[\]-]{1,80}):(?P<port>\d{1,5}))?"
         r"|(?P<what_2>Connect\(\) timed out after)",
         "E client.cc:300] Coordination agent is in error: failed to connect to all addresses; last error:"
         " ipv4:10.0.0.1:1234",
         {"address": "10.0.0.1", "port": 1234}, "tsl/distributed_runtime/coordination/coordination_service_agent.cc"),
    Rule("register", "jax.no_coordinator", r"^\s*RPC: /[\w.]{1,80}CoordinationService/RegisterTask\s*$",
         "RPC: /tensorflow.CoordinationService/RegisterTask", {"phase": "register"},
         "tsl/distributed_runtime/coordination/coordination_service_agent.cc", {"phase": "register"}),
)  # fmt: skip
