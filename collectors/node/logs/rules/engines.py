"""Inference engines whose workers do not answer (vLLM, SGLang), and Ray."""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs.rule import Data, Example, Rule, number


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
