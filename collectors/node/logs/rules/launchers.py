"""What launchers say of the ranks that they started: torchrun, DeepSpeed, Accelerate, Lightning, mpirun, vLLM, SGLang.

The report of a ChildFailedError is no line: see :mod:`collectors.node.logs.elastic_report`.
"""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs.exceptions import TOOLS
from collectors.node.logs.rule import Data, Example, Rule, number


def _rendezvous(match: "Match[str]", data: Data) -> Optional[Data]:
    name, text = str(data.pop("name", "")), match.string
    data["problem"] = name.lower() or ("closed" if "has been closed" in match.group() else "timeout")
    parting = re.search(r"has failed to (shutdown|send a keep-alive heartbeat to) the rendezvous", text)
    if parting is not None:
        data["warned"] = "shutdown" if parting.group(1) == "shutdown" else "keep-alive"
    return data


def _accelerate(match: "Match[str]", data: Data) -> Optional[Data]:
    local = re.search(r"--local[_-]rank(?:=|', ')(\d{1,6})\b", match.string)
    return data if local is None else dict(data, local_rank=number(local.group(1)))


def _scheduler(match: "Match[str]", data: Data) -> Optional[Data]:
    label = re.search(r"\b(?:TP|tp_rank=)(\d{1,4})\b", match.string[:120])
    return data if label is None else dict(data, worker=number(label.group(1)))


RULES = (
    Rule("elastic.failed", "failed (exitcode:",
         r"failed \(exitcode: (?P<exitcode>-?\d+)\)(?: (?:local_rank: )?(?P<local_rank>\d+) \(pid: "
         r"(?P<failed_pid>\d+)\))?",
         Example("E1121 00:12:20 71 api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 4711) of binary: python3",
                 {"exitcode": -9, "signal": "KILL", "local_rank": 1, "failed_pid": 4711},
                 "torch elastic/multiprocessing/api.py")),
    Rule("elastic.signal", "got signal:|death signal,|termination signal:|Main process received",
         r"Process \d+ got signal: (?P<signal>\w+)|Received (?:Signals\.)?(?P<signal_2>SIG\w+|\d+) death signal, "
         r"shutting down workers|Got termination signal: (?:Signals\.)?(?P<signal_3>\w+)|Main process received "
         r"(?P<signal_4>SIG\w+), exiting",
         Example("Process 71 got signal: 15", {"signal": "TERM"}, "torch elastic/multiprocessing/api.py; deepspeed")),
    Rule("elastic.rendezvous", "Rendezvous|endezvous '|endezvous timed out|endezvous has timed out",
         "Rendezvous(?P<name>Timeout|Closed|Connection|State)Error|The rendezvous '[^']*' has (?:been closed|timed out)"
         "|[Rr]endezvous (?:has )?timed out",
         Example("W0417 13:22:17.2 6 dynamic_rendezvous.py:1331] The node 'n2_6_0' has failed to shutdown the "
                 "rendezvous '14' due to an error of type RendezvousConnectionError.",
                 {"problem": "connection", "warned": "shutdown"}, "torch elastic/rendezvous/dynamic_rendezvous.py"),
         read=_rendezvous),
    Rule("elastic.restart", "attempts left;",
         r"Worker group (?:FAILED|UNHEALTHY)\. \d+/\d+ attempts left;",
         Example("Worker group FAILED. 1/3 attempts left;", {}, "torch elastic/agent/server/api.py")),
    Rule("elastic.finished", "worker group successfully|worker group finished",
         r"worker group successfully finished|Local worker group finished \(SUCCEEDED\)",
         Example("worker group successfully finished", {}, "torch elastic/agent/server/api.py")),
    Rule("launcher.exit", "exits with return code", r"exits with return code = (?P<exitcode>-?\d+)",
         Example("[ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -9",
                 {"launcher": "deepspeed", "exitcode": -9, "signal": "KILL"}, "deepspeed launch.py"),
         {"launcher": "deepspeed"}),
    Rule("launcher.exit", "CalledProcessError|died with <Signals",
         r"subprocess\.CalledProcessError" + TOOLS + r": Command '?\[?[^\r\n]*returned non-zero exit status"
         r" (?P<exitcode>-?\d+)|died with <Signals\.(?P<signal>SIG\w+)",
         Example("subprocess.CalledProcessError: Command '['python', 'train.py', '--local_rank=1']' returned non-zero"
                 " exit status 1", {"launcher": "accelerate", "exitcode": 1, "local_rank": 1}, "accelerate launch.py"),
         {"launcher": "accelerate"}, read=_accelerate),
    Rule("launcher.exit", "Child process with PID",
         r"\[rank: (?P<task>\d+)\] Child process with PID \d+ terminated with code (?P<exitcode>-?\d+)",
         Example("[rank: 1] Child process with PID 4712 terminated with code -11",
                 {"launcher": "lightning", "task": 1, "exitcode": -11, "signal": "SEGV"},
                 "lightning subprocess_script.py"), {"launcher": "lightning"}),
    Rule("launcher.exit", "terminated with",
         r"[Pp]rocess (?P<task>\d+) terminated with(?:\s{0,4}$| the following error| signal (?P<signal>SIG\w+)"
         r"| exit code (?P<exitcode>-?\d+))",
         Example("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
                 {"launcher": "spawn", "task": 1, "signal": "KILL"}, "torch/multiprocessing/spawn.py"),
         {"launcher": "spawn"}),
    Rule("launcher.exit", "noticed that process rank|has exited due to process rank",
         r"(?:mpirun|mpiexec|prterun)\S* (?:noticed that|has exited due to) process rank (?P<task>\d+) with PID \w+ "
         r"on\s{1,4}node (?P<by_host>\S+)(?P<reason>\s(?:exiting improperly|calling \"abort\"|exited(?=\s{0,4}"
         r"(?:on\s{0,4})?$)))?(?:\s(?:exited on|exited\son)\s(?:signal (?P<signal>\d+))| exited with (?:status|exit "
         r"code) (?P<exitcode>\d+))?",
         Example("mpirun noticed that process rank 3 with PID 71 on node n7 exited on signal 9 (Killed).",
                 {"launcher": "mpi", "task": 3, "signal": "KILL", "by_host": "n7"}, "Open MPI help-orterun.txt"),
         {"launcher": "mpi"}, begins=r"noticed that process rank \d{1,9} with PID [^\r\n]{1,200} exited(?: on)?\s{0,4}$"
         r"|has exited due to process rank \d{1,9} with PID \w{1,12} on(?: node)?\s{0,4}$"),
    Rule("engine.timeout", "RPC call to", r"RPC call to (?P<call>\w{1,60}) timed out",
         Example("TimeoutError: RPC call to execute_model timed out.", {"call": "execute_model"},
                 "vllm multiproc_executor.py")),
    Rule("engine.timeout", "Watchdog timeout (self", r"Watchdog timeout \(self\.watchdog_timeout=(?P<seconds>\d{1,6})",
         Example("[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)",
                 {"call": "scheduler", "seconds": 300, "worker": 4}, "sglang scheduler.py"), {"call": "scheduler"},
         read=_scheduler),
    Rule("launcher.exit", "Worker proc VllmWorker",
         r"(?P<reason>Worker proc VllmWorker-(?P<task>\d{1,5}) died unexpectedly)",
         Example("Worker proc VllmWorker-2 died unexpectedly", {"launcher": "vllm", "task": 2},
                 "vllm multiproc_executor.py"), {"launcher": "vllm"}),
)  # fmt: skip
