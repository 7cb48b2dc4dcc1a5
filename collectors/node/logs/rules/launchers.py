"""What launchers say of the ranks that they started: torchrun's agent, DeepSpeed, Accelerate, Lightning, mpirun.

The report of a ChildFailedError is no line: see
:mod:`collectors.node.logs.elastic_report`.
"""

from __future__ import annotations

import re
from typing import Match, Optional

from collectors.node.logs.exceptions import TOOLS
from collectors.node.logs.rule import Data, Example, Rule, number


def _rendezvous(match: "Match[str]", data: Data) -> Optional[Data]:
    name, text = str(data.pop("name", "")), match.string
    problem = {"Timeout": "timeout", "Closed": "closed", "Connection": "connection", "State": "state"}.get(name, "")
    data["problem"] = problem or ("closed" if "has been closed" in match.group() else "timeout")
    parting = re.search(r"has failed to (shutdown|send a keep-alive heartbeat to) the rendezvous", text)
    if parting is not None:
        data["warned"] = "shutdown" if parting.group(1) == "shutdown" else "keep-alive"
    return data


def _accelerate(match: "Match[str]", data: Data) -> Optional[Data]:
    local = re.search(r"--local[_-]rank(?:=|', ')(\d{1,6})\b", match.string)
    return data if local is None else dict(data, local_rank=number(local.group(1)))


ELASTIC = (
    Rule("failed", "elastic.failed",
         r"failed \(exitcode: (?P<exitcode>-?\d+)\)(?: (?:local_rank: )?(?P<local_rank>\d+) \(pid: "
         r"(?P<failed_pid>\d+)\)(?: of (?:binary|fn): (?P<binary>\S+))?)?",
         Example("E1121 00:12:20 71 api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 4711) of binary: python3",
         {"exitcode": -9, "signal": "KILL", "local_rank": 1, "failed_pid": 4711, "binary": "python3"},
         "torch elastic/multiprocessing/api.py"), also=True),
    Rule("received", "elastic.failed",
         r"Signal \d{1,2} \((?P<signal>SIG\w+)\) received by PID (?P<failed_pid>\d+)",
         Example("traceback : Signal 9 (SIGKILL) received by PID 492347", {"signal": "KILL", "failed_pid": 492347},
         "torch elastic/multiprocessing/errors/__init__.py"), also=True),
    Rule("closing", "elastic.closing",
         r"Sending process (?P<closed_pid>\d+) closing signal (?P<signal>[\w.]+)"
         r"|Closing process (?P<closed_pid_2>\d+) via signal (?P<signal_2>[\w.]+)",
         Example("W1121 api.py:897] Sending process 4712 closing signal SIGTERM",
         {"closed_pid": 4712, "signal": "TERM"}, "torch elastic/multiprocessing/api.py"), also=True),
    Rule("signal", "elastic.signal",
         r"Process (?P<signalled_pid>\d+) got signal: (?P<signal>\w+)"
         r"|Received (?:Signals\.)?(?P<signal_2>SIG\w+|\d+) death signal, shutting down workers"
         r"|Got termination signal: (?:Signals\.)?(?P<signal_3>\w+)",
         Example("torch.distributed.elastic.multiprocessing.api.SignalException: Process 71 got signal: 15",
         {"signal": "TERM", "signalled_pid": 71}, "torch elastic/multiprocessing/api.py"), also=True),
    Rule("rendezvous", "elastic.rendezvous",
         "Rendezvous(?P<name>Timeout|Closed|Connection|State)Error"
         "|The rendezvous '(?P<run_id>[^']*)' has (?:been closed|timed out)"
         r"|rendezvous[^\n]{0,80}?(?:has timed out|timed out)",
         Example("W0417 13:22:17.2 6 dynamic_rendezvous.py:1331] The node 'n2_6_0' has failed to shutdown "
         "the rendezvous '14' due to an error of type RendezvousConnectionError.",
         {"problem": "connection", "warned": "shutdown"},
         "torch elastic/rendezvous/dynamic_rendezvous.py"), read=_rendezvous, also=True),
    Rule("restart", "elastic.restart",
         r"Worker group (?:FAILED|UNHEALTHY)\. (?P<attempts_left>\d+)/\d+ attempts left;",
         Example("[default] Worker group FAILED. 1/3 attempts left; will restart worker group", {"attempts_left": 1},
         "torch elastic/agent/server/api.py")),
    Rule("new_nodes", "elastic.restart",
         r"Detected \d+ new nodes[^\n]{0,120}will restart worker group",
         Example("[default] Detected 1 new nodes from group_rank=0; will restart worker group",
         {"reason": "new nodes"}, "torch elastic/agent/server/api.py"), {"reason": "new nodes"}),
    Rule("finished", "elastic.finished",
         r"worker group successfully finished|Local worker group finished \(SUCCEEDED\)",
         Example("[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.", {},
         "torch elastic/agent/server/api.py")),
)  # fmt: skip


OTHERS = (
    Rule("deepspeed_killing", "launcher.killed",
         r"[Kk]illing subprocess (?P<killed_pid>\d+)",
         Example("[2026-11-21 00:12:20,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711",
         {"launcher": "deepspeed", "killed_pid": 4711}, "deepspeed launch.py"), {"launcher": "deepspeed"}),
    Rule("deepspeed_signal", "elastic.signal",
         r"Main process received (?P<signal>SIG\w+), exiting",
         Example("[INFO] [launch.py:328:sigkill_handler] Main process received SIGINT, exiting",
         {"launcher": "deepspeed", "signal": "INT"}, "deepspeed launch.py"), {"launcher": "deepspeed"}),
    Rule("deepspeed_exit", "launcher.exit",
         r"exits with return code = (?P<exitcode>-?\d+)",
         Example("[ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -9",
         {"launcher": "deepspeed", "exitcode": -9, "signal": "KILL"}, "deepspeed launch.py"),
         {"launcher": "deepspeed"}),
    Rule("accelerate", "launcher.exit",
         r"subprocess\.CalledProcessError" + TOOLS
         + r": Command '?\[?[^\r\n]*returned non-zero exit status (?P<exitcode>-?\d+)"
         r"|died with <Signals\.(?P<signal>SIG\w+)",
         Example("subprocess.CalledProcessError: Command '['python', 'train.py', '--local_rank=1']' returned "
         "non-zero exit status 1.", {"launcher": "accelerate", "exitcode": 1, "local_rank": 1},
         "accelerate launch.py"), {"launcher": "accelerate"}, read=_accelerate),
    Rule("lightning", "launcher.exit",
         r"\[rank: (?P<task>\d+)\] Child process with PID \d+ terminated with code (?P<exitcode>-?\d+)",
         Example("[rank: 1] Child process with PID 4712 terminated with code -11. Forcefully terminating all "
         "other processes", {"launcher": "lightning", "task": 1, "exitcode": -11, "signal": "SEGV"},
         "lightning subprocess_script.py"), {"launcher": "lightning"}),
    Rule("spawn", "launcher.exit",
         r"[Pp]rocess (?P<task>\d+) terminated with(?:\s{0,4}$| the following error| signal (?P<signal>SIG\w+)"
         r"| exit code (?P<exitcode>-?\d+))",
         Example("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
         {"launcher": "spawn", "task": 1, "signal": "KILL"}, "torch/multiprocessing/spawn.py"),
         {"launcher": "spawn"}),
    Rule("mpirun", "launcher.exit",
         r"(?:mpirun|mpiexec|prterun|orterun)\S* (?:noticed that|has exited due to) process rank (?P<task>\d+) "
         r"with PID \w+ on\s{1,4}node (?P<by_host>\S+)(?P<reason>\s(?:exiting improperly|calling \"abort\""
         r"|exited(?=\s{0,4}(?:on\s{0,4})?$)))?(?:\s(?:exited on|exited\son)\s(?:signal (?P<signal>\d+))"
         r"| exited with (?:status|exit code) (?P<exitcode>\d+))?",
         Example("mpirun noticed that process rank 3 with PID 71 on node n7 exited on signal 9 (Killed).",
         {"launcher": "mpi", "task": 3, "signal": "KILL", "by_host": "n7"},
         "Open MPI help-orterun.txt"), {"launcher": "mpi"},
         begins=r"noticed that process rank \d{1,9} with PID [^\r\n]{1,200} exited(?: on)?\s{0,4}$"
         r"|has exited due to process rank \d{1,9} with PID \w{1,12} on(?: node)?\s{0,4}$"),
    Rule("mpi_abort", "launcher.exit",
         r"(?P<reason>MPI_ABORT) was invoked on rank (?P<task>\d+)",
         Example("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
         {"launcher": "mpi", "task": 3, "signal": "ABRT"}, "Open MPI help-mpi-api.txt"),
         {"launcher": "mpi", "signal": "ABRT"}),
    Rule("ssh", "launcher.lost_node",
         r"ssh: (?:Could not resolve hostname (?P<by_host>[\w.-]{1,200})"
         r"|connect to host (?P<by_host_2>[\w.-]{1,200}) port \d+): (?P<why>[^\r\n]{0,100})",
         Example("ssh: connect to host n7 port 22: No route to host",
         {"launcher": "ssh", "why": "No route to host", "by_host": "n7"}, "OpenSSH sshconnect.c"),
         {"launcher": "ssh"}),
)  # fmt: skip
