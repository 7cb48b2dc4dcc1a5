"""Inference engines whose workers do not answer (vLLM, SGLang), Ray, and JAX."""

from __future__ import annotations

import re
from typing import List, Match, Optional

from collectors.node.logs.rule import Data, Example, Rule, number
from collectors.samples.values import Scalar

_TASK = r"/job:[\w-]{1,60}/replica:\d{1,6}/task:"


_TASKS = re.compile(_TASK + r"(\d{1,6})")


def _tasks(text: str) -> List[Scalar]:
    numbers: List[Scalar] = []
    numbers.extend(sorted({int(found) for found in _TASKS.findall(text)}))
    return numbers


def _barrier(match: "Match[str]", data: Data) -> Optional[Data]:
    """With who is missing, where the text lists them, and how many came."""
    came = re.search(r"# of tasks that reached the barrier: (\d{1,9})/(\d{1,9})", match.string) or re.search(
        r"\b(\d{1,9})/(\d{1,9}) tasks reached the barrier", match.string
    )
    if came is not None:
        data["joined"], data["expected"] = number(came.group(1)), number(came.group(2))
    absent = re.search(r"[Tt]imed out task names:", match.string)
    if absent is not None:
        data["missing"] = _tasks(match.string[absent.end() :])
    return data


def _lost(match: "Match[str]", data: Data) -> Optional[Data]:
    tasks = _tasks(match.string[match.start() :])
    return dict(data, tasks=tasks) if tasks else None


def _scheduler(match: "Match[str]", data: Data) -> Optional[Data]:
    label = re.search(r"\b(?:TP|tp_rank=)(\d{1,4})\b", match.string[:120])
    return data if label is None else dict(data, worker=number(label.group(1)))


ENGINES = (
    Rule("rpc_timeout", "engine.timeout",
         r"RPC call to (?P<call>\w{1,60}) timed out", Example("TimeoutError: RPC call to execute_model timed out.",
         {"call": "execute_model"}, "vllm multiproc_executor.py")),
    Rule("scheduler", "engine.timeout",
         r"Watchdog timeout \(self\.watchdog_timeout=(?P<seconds>\d{1,6})",
         Example("[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)",
         {"call": "scheduler", "seconds": 300}, "sglang scheduler.py"),
         {"call": "scheduler"}, read=_scheduler),
    Rule("health", "engine.timeout",
         r"Health check failed\. Server couldn't get a response from (?P<call>\w{2,40}) for last (?P<seconds>\d{1,6})",
         Example("Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
         {"call": "detokenizer", "seconds": 20}, "sglang http_server.py")),
    Rule("vllm_worker", "launcher.exit",
         r"(?P<reason>Worker proc VllmWorker-(?P<task>\d{1,5}) died unexpectedly)",
         Example("ERROR [multiproc_executor.py:140] Worker proc VllmWorker-2 died unexpectedly, shutting "
         "down executor.", {"launcher": "vllm", "task": 2}, "vllm multiproc_executor.py"),
         {"launcher": "vllm"}),
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
         Example("The actor died because of an error raised in its creation task\n\tpid: 71\n\tip: 10.0.0.7",
         {"launcher": "ray", "reason": "The actor died because of an error raised in its creation task",
         "by_pid": 71, "by_host": "10.0.0.7"}, "ray core_worker.cc"), {"launcher": "ray"},
         read=_ray, begins=r"The actor (?:died|is dead)[^\r\n]{0,200}[.:]?\s*$",
         item=r"\s{1,8}(?:class_name|actor_id|pid|name|namespace|ip): "),
    Rule("raylet", "launcher.lost_node",
         r"(?:address|ip): (?P<by_host>[\w.:-]{1,80})[^\r\n]{0,120} has been marked dead because the "
         r"(?:detector|monitor)|the node it was running on is dead or unavailable\. Node IP: "
         r"(?P<by_host_2>[\w.:-]{1,80}),|Raylet is terminated(?:: ip=(?P<by_host_3>[\w.:-]{1,80}),"
         r"|\.)[^\r\n]{0,120}Termination is unexpected|The node with (?:client"
         r"|node) id:? \w{8,64} has been marked dead because the (?:detector|monitor)",
         Example("The node with node id: 8a7b9c1d2e and address: 10.0.0.7 and node name: 10.0.0.7 has been "
         "marked dead because the detector has missed too many heartbeats from it.",
         {"launcher": "ray", "by_host": "10.0.0.7"}, "ray gcs_node_manager.cc"),
         {"launcher": "ray", "why": "it gives no sign of life"}),
)  # fmt: skip


JAX = (
    Rule("barrier", "jax.barrier",
         r"Barrier timed out\. (?:Id|Barrier_id): (?P<barrier>[^\s,]{1,200}?)[.,]?(?:\s|$)"
         r"|DEADLINE_EXCEEDED: (?P<barrier_2>GetKeyValue)\(\) timed out",
         Example("Barrier timed out. Id: save::0. Look at logs to debug further.\n# of tasks that reached the "
         "barrier: 3/4.\nThe first task at the barrier: /job:w/replica:0/task:0. Some timed out task "
         "names:\n/job:w/replica:0/task:2", {"barrier": "save::0", "joined": 3, "expected": 4, "missing": [2]},
         "tsl coordination_service.cc"), read=_barrier,
         begins=r"Barrier timed out[^\r\n]{0,600}(?:further\.|task names:)\s*$",
         item=r"\s*(?:" + _TASK + r"\d{1,6}\s*$|# of tasks that reached|The first task at the barrier)"),
    Rule("lost", "jax.lost",
         r"(?:unhealthy \()?stopped sending heartbeats|" + _TASK + r"\d{1,6} heartbeat timeout",
         Example("UNAVAILABLE: Task /job:w/replica:0/task:3 heartbeat timeout. This indicates that the "
         "remote task has failed", {"tasks": [3], "how": "heartbeat"},
         "tsl coordination_service.cc"), {"how": "heartbeat"}, read=_lost,
         begins=r"stopped sending heartbeats\)\s*:\s*$", item=r"\s*" + _TASK),
    Rule("victim", "jax.victim",
         "(?:JAX distributed service|coordinator) detected (?:fatal errors|missing heartbeats)"
         "|indicates that another task died",
         Example("Terminating process because the JAX distributed service detected fatal errors. This most "
         "likely indicates that another task died", {}, "xla/pjrt/distributed/client.h")),
)  # fmt: skip
