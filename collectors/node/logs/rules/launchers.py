"""What launchers say of the ranks that they started: torchrun's agent, DeepSpeed, Accelerate, Lightning, mpirun.

``launcher.refused`` has ``why`` a job was never started. The report of a ChildFailedError is no line: see
:mod:`collectors.node.logs.elastic_report`.
"""

from __future__ import annotations

from typing import Match, Optional

from collectors.node import late_re as re
from collectors.node.logs import signals
from collectors.node.logs.exceptions import TOOLS
from collectors.node.logs.rule import Data, Rule, number


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


def _hydra(match: "Match[str]", data: Data) -> Optional[Data]:
    """A signal, or an exit code that is one's number."""
    code = data.get("exitcode")
    if code == 0 or (code is None and "signal" not in data):
        return None
    if isinstance(code, int) and code > 3 and code in signals.NAMES:
        data["signal"] = signals.NAMES[code]
    return data


ELASTIC = (
    Rule("failed", "elastic.failed",
         r"failed \(exitcode: (?P<exitcode>-?\d+)\)(?: (?:local_rank: )?(?P<local_rank>\d+) \(pid:"
         r" (?P<failed_pid>\d+)\)"
         r"(?: of (?:binary|fn): (?P<binary>\S+))?)?",
         "E1121 00:12:20 71 api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 4711) of binary: /usr/bin/python3",
         {"exitcode": -9, "signal": "KILL", "local_rank": 1, "failed_pid": 4711, "binary": "/usr/bin/python3"},
         "torch/distributed/elastic/multiprocessing/api.py", also=True),
    Rule("received", "elastic.failed", r"Signal \d{1,2} \((?P<signal>SIG\w+)\) received by PID (?P<failed_pid>\d+)",
         "traceback : Signal 9 (SIGKILL) received by PID 492347", {"signal": "KILL", "failed_pid": 492347},
         "torch/distributed/elastic/multiprocessing/errors/__init__.py", also=True),
    Rule("closing", "elastic.closing",
         r"Sending process (?P<closed_pid>\d+) closing signal (?P<signal>[\w.]+)"
         r"|Closing process (?P<closed_pid_2>\d+) via signal (?P<signal_2>[\w.]+)",
         "W1121 api.py:897] Sending process 4712 closing signal SIGTERM", {"closed_pid": 4712, "signal": "TERM"},
         "torch/distributed/elastic/multiprocessing/api.py", also=True),
    Rule("unkillable", "elastic.unkillable",
         r"Unable to shutdown process (?P<stuck_pid>\d+)|Process (?P<stuck_pid_2>\d+) did not exit after"
         r"|Worker pid=(?P<stuck_pid_3>\d+) (?:stuck in|entered) uninterruptible sleep",
         "Unable to shutdown process 4712 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
         {"stuck_pid": 4712},
         "torch/distributed/elastic/multiprocessing/api.py", also=True),
    Rule("signal", "elastic.signal",
         r"Process (?P<signalled_pid>\d+) got signal: (?P<signal>\w+)|Received (?:Signals\.)?(?P<signal_2>SIG\w+|\d+)"
         r" death"
         r" signal, shutting down workers|Got termination signal: (?:Signals\.)?(?P<signal_3>\w+)",
         "torch.distributed.elastic.multiprocessing.api.SignalException: Process 71 got signal: 15",
         {"signal": "TERM", "signalled_pid": 71}, "torch/distributed/elastic/multiprocessing/api.py", also=True),
    Rule("rendezvous", "elastic.rendezvous",
         r"Rendezvous(?P<name>Timeout|Closed|Connection|State)Error|The rendezvous '(?P<run_id>[^']*)' has (?:been"
         r" closed|timed"
         r" out)|rendezvous[^\n]{0,80}?(?:has timed out|timed out)",
         "W0417 13:22:17.2 6 dynamic_rendezvous.py:1331] The node 'n2_6_0' has failed to shutdown the rendezvous"
         " '14' due to an"
         " error of type RendezvousConnectionError.", {"problem": "connection", "warned": "shutdown"},
         "torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", read=_rendezvous, also=True),
    Rule("restart", "elastic.restart", r"Worker group (?:FAILED|UNHEALTHY)\. (?P<attempts_left>\d+)/\d+ attempts left;",
         "[default] Worker group FAILED. 1/3 attempts left; will restart worker group", {"attempts_left": 1},
         "torch/distributed/elastic/agent/server/api.py"),
    Rule("new_nodes", "elastic.restart", r"Detected \d+ new nodes[^\n]{0,120}will restart worker group",
         "[default] Detected 1 new nodes from group_rank=0; will restart worker group", {"reason": "new nodes"},
         "torch/distributed/elastic/agent/server/api.py", {"reason": "new nodes"}),
    Rule("finished", "elastic.finished", r"worker group successfully finished|Local worker group finished"
                                         r" \(SUCCEEDED\)",
         "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish.", {},
         "torch/distributed/elastic/agent/server/api.py"),
)  # fmt: skip

OTHERS = (
    Rule("deepspeed_killing", "launcher.killed", r"[Kk]illing subprocess (?P<killed_pid>\d+)",
         "[2026-11-21 00:12:20,123] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711",
         {"launcher": "deepspeed", "killed_pid": 4711}, "deepspeed/launcher/launch.py", {"launcher": "deepspeed"}),
    Rule("deepspeed_exit", "launcher.exit", r"exits with return code = (?P<exitcode>-?\d+)",
         "[ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -9",
         {"launcher": "deepspeed", "exitcode": -9, "signal": "KILL"}, "deepspeed/launcher/launch.py",
         {"launcher": "deepspeed"}),
    Rule("deepspeed_told", "slurm.cancelled", r"(?P<why>Main process received SIGINT, exiting)",
         "[launch.py:283] Main process received SIGINT, exiting", {"launcher": "deepspeed", "reason": "user"},
         "deepspeed/launcher/launch.py", {"launcher": "deepspeed", "reason": "user"}),
    Rule("requeue", "slurm.cancelled", r"(?P<why>Handling auto-requeue signal: ?\w{1,10})",
         "Handling auto-requeue signal: 10", {"launcher": "lightning", "reason": "job_requeue"},
         "lightning pytorch/trainer/connectors/signal_connector.py", {"launcher": "lightning",
         "reason": "job_requeue"}),
    Rule("accelerate", "launcher.exit",
         r"subprocess\.CalledProcessError" + TOOLS + r": Command '?\[?[^\r\n]*returned non-zero exit status"
                                                     r" (?P<exitcode>-?\d+)"
         r"|died with <Signals\.(?P<signal>SIG\w+)",
         "subprocess.CalledProcessError: Command '['python', 'train.py', '--local_rank=1']' returned non-zero exit"
         " status 1.",
         {"launcher": "accelerate", "exitcode": 1, "local_rank": 1}, "accelerate/commands/launch.py",
         {"launcher": "accelerate"}, read=_accelerate),
    Rule("lightning", "launcher.exit",
         r"\[rank: (?P<task>\d+)\] Child process with PID \d+ terminated with code (?P<exitcode>-?\d+)",
         "[rank: 1] Child process with PID 4712 terminated with code -11. Forcefully terminating all other processes",
         {"launcher": "lightning", "task": 1, "exitcode": -11, "signal": "SEGV"},
         "lightning fabric/strategies/launchers/subprocess_script.py", {"launcher": "lightning"}),
    Rule("spawn", "launcher.exit",
         r"[Pp]rocess (?P<task>\d+) terminated with(?:\s{0,4}$| the following error| signal (?P<signal>SIG\w+)"
         r"| exit code (?P<exitcode>-?\d+))", "torch.multiprocessing.spawn.ProcessExitedException: process 1"
                                              " terminated with"
         " signal SIGKILL", {"launcher": "spawn", "task": 1, "signal": "KILL"}, "torch/multiprocessing/spawn.py",
         {"launcher": "spawn"}),
    Rule("mpirun", "launcher.exit",
         r"(?:mpirun|mpiexec|prterun|orterun)\S* (?:noticed that|has exited due to) process rank (?P<task>\d+) with"
         r" PID \w+ on"
         r"\s{1,4}node (?P<by_host>\S+)(?P<reason>\s(?:exiting improperly|calling \"abort\"|exited(?=\s{0,4}(?:on\s{0"
         r",4})?$)))?"
         r"(?:\s(?:exited on|exited\son)\s(?:signal (?P<signal>\d+))| exited with (?:status|exit code)"
         r" (?P<exitcode>\d+))?",
         "mpirun noticed that process rank 3 with PID 71 on node n7 exited on signal 9 (Killed).",
         {"launcher": "mpi", "task": 3, "signal": "KILL", "by_host": "n7"},
         "Open MPI orte/tools/orterun/help-orterun.txt",
         {"launcher": "mpi"},
         begins=r"noticed that process rank \d{1,9} with PID [^\r\n]{1,200} exited(?: on)?\s{0,4}$"
         r"|has exited due to process rank \d{1,9} with PID \w{1,12} on(?: node)?\s{0,4}$"),
    Rule("mpirun_first", "launcher.exit",
         r"Process name: \[\[\d+,\d+\],(?P<task>\d+)\][\s#>]+Exit code:\s+(?P<exitcode>\d+)",
         "  Process name: [[27407,1],3]\n  Exit code:    1", {"launcher": "mpi", "task": 3, "exitcode": 1},
         "Open MPI orte/tools/orterun/help-orterun.txt", {"launcher": "mpi"},
         begins=r"Process name: \[\[\d+,\d+\],\d+\]\s*$"),
    Rule("mpi_abort", "launcher.exit", r"(?P<reason>MPI_ABORT) was invoked on rank (?P<task>\d+)",
         "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", {"launcher": "mpi", "task": 3,
         "signal": "ABRT"},
         "Open MPI ompi/mpi/help-mpi-api.txt", {"launcher": "mpi", "signal": "ABRT"}),
    Rule("mpi_timeout", "slurm.cancelled", r"^\s{0,8}(?P<why>MPIEXEC_TIMEOUT: \d{1,9} seconds)\b",
         "  MPIEXEC_TIMEOUT: 60 seconds", {"launcher": "mpi", "reason": "time_limit"}, "Open MPI help-orterun.txt",
         {"launcher": "mpi", "reason": "time_limit"}),
    Rule("mpi_daemon", "launcher.lost_node",
         r"Remote daemon ?: *\S{1,120} on node (?P<by_host>[\w.:-]{1,120})|^ {1,4}hostname:"
         r" {1,3}(?P<by_host_2>[\w.-]{1,120})$",
         "  Remote daemon: [[27407,0],1] on node d23n02", {"launcher": "mpi", "by_host": "d23n02"},
         "Open MPI help-errmgr-base.txt", {"launcher": "mpi"}),
    Rule("mpi_unreached", "launcher.lost_node",
         r"(?:unable to complete a TCP connection|Open MPI failed to TCP connect to a peer)"
         r"(?:[\s\S]{0,400}?(?:Remote host|Peer (?:host(?:name)?|address)): {0,20}(?P<by_host>[A-Za-z0-9][\w.-]{0,120"
         r"}))?",
         "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    n1\n"
         "  Remote host:   n2", {"by_host": "n2", "launcher": "mpi"}, "Open MPI help-oob-tcp.txt",
         {"launcher": "mpi", "why": "no TCP connection to it came about"},
         begins=r"unable to complete a TCP connection|Open MPI failed to TCP connect to a peer",
         item=r"^\s{0,8}(?:to (?:another|a peer MPI) process[.:]|(?:Local|Remote|Peer|PID|Message|Error)\b[^\r\n]{0,2"
              r"00}|)\s{0,4}$"),
    Rule("hydra", "launcher.exit",
         r"=\s{1,6}(?:RANK (?P<task>\d{1,7}) )?PID \d{1,10} RUNNING AT (?P<by_host>[\w.:-]{1,120})\s{1,8}=\s{1,6}(?:E"
         r"XIT (?:CODE"
         r"|STATUS): (?P<exitcode>\d{1,5})|(?:KILLED BY SIGNAL|EXIT STRING): ?(?P<signal>\d{1,2})\b)",
         "=   RANK 3 PID 4711 RUNNING AT node7\n=   KILLED BY SIGNAL: 11 (Segmentation fault)",
         {"launcher": "hydra", "task": 3, "signal": "SEGV", "by_host": "node7"}, "MPICH src/pm/hydra/mpiexec",
         {"launcher": "hydra"}, read=_hydra, begins=r" RUNNING AT [\w.:@-]{1,160}\s{0,4}$"),
    Rule("ssh", "launcher.lost_node",
         r"ssh: (?:Could not resolve hostname (?P<by_host>[\w.-]{1,200})|connect to host"
         r" (?P<by_host_2>[\w.-]{1,200}) port \d+):"
         r" (?P<why>[^\r\n]{0,100})", "ssh: connect to host n7 port 22: No route to host",
         {"launcher": "ssh", "why": "No route to host", "by_host": "n7"}, "OpenSSH sshconnect.c", {"launcher": "ssh"}),
)  # fmt: skip

_PROGRAMS = (
    r"(?:torchrun|mpirun|mpiexec|srun|sbatch|deepspeed|accelerate|ray|python3?|pdsh|singularity|apptainer|enroot|dock"
    r"er)"
)
REFUSALS = (
    Rule("refused_mpi", "launcher.refused",
         r"(?P<why>There are not enough slots available in the system[^\r\n]{0,80}"
         r"|(?:mpirun|mpiexec|prterun|orterun) (?:has detected an attempt to run as root|was unable to"
         r" (?:find|launch) the specified"
         r" [^\r\n]{0,80})|(?:An )?(?:ORTE|PRTE|PRRTE) (?:daemon has unexpectedly failed after launch|was unable to"
         r" reliably start"
         r" one or more daemons))",
         "There are not enough slots available in the system to satisfy the 8 slots that were requested",
         {"launcher": "mpi"}, "Open MPI help-orte-rmaps-base.txt", {"launcher": "mpi"}),
    Rule("refused_where", "launcher.refused", r"^ {0,4}(?:Node|Local host|Host): {2,12}(?P<by_host>[A-Za-z][\w.-]{0,1"
                                              r"20})\s{0,4}$",
         "  Local host:  node7", {"launcher": "mpi", "why": "", "where": True, "by_host": "node7"},
         "Open MPI help texts",
         {"launcher": "mpi", "why": "", "where": True}),
    Rule("refused_ssh", "launcher.refused",
         r"(?:[\w.-]{1,60}@(?P<by_host>[\w.-]{1,120}): )?(?P<why>Permission denied \([\w,-]{4,80}\)|Host key"
         r" verification failed)",
         "u@n7: Permission denied (publickey,password).", {"launcher": "ssh", "by_host": "n7",
         "why": "Permission denied (publickey,password)"}, "OpenSSH sshconnect2.c", {"launcher": "ssh"}),
    Rule("refused_shell", "launcher.refused",
         r"(?:^|[ :])(?P<why>" + _PROGRAMS + r": (?:command )?not found)\s{0,4}$|^(?:bash|sh|env|nohup|exec):"
                                             r" (?:line \d{1,5}: )?"
         r"(?P<why_2>(?:/[\w./+-]{0,200}/)?" + _PROGRAMS + r"[\d.]{0,5}: No such file or directory)"
         r"|^(?:/\S{0,200}/)?python[\d.]{0,5}: (?P<why_3>can't open file '?[^\r\n]{1,300})"
         r"|(?P<why_4>/\S{1,200}/python[\d.]{0,5}: No module named (?:torch|deepspeed|accelerate)[\w.]{0,60})",
         "/var/spool/job/slurm_script: line 9: torchrun: command not found",
         {"launcher": "shell", "why": "torchrun: command not found"}, "bash execute_cmd.c, CPython main.c",
         {"launcher": "shell"}),
    Rule("refused_docker", "launcher.refused",
         r"nvidia-container-(?:cli|runtime): (?P<why>(?:\w{3,20} )?error: [^\r\n]{1,200})"
         r"|(?P<why_2>could not select device driver [^\r\n]{1,160}|OCI runtime (?:create|exec|start)?"
         r" ?(?:failed|error)[^\r\n]{0,240}"
         r"|unresolvable CDI devices [^\r\n]{1,120})|Error response from daemon: (?P<why_3>(?!Conflict|No such"
         r" container)"
         r"[^\r\n]{1,240})",
         "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
         {"launcher": "docker", "why": "initialization error: nvml error: driver not loaded: unknown"},
         "nvidia-container-toolkit", {"launcher": "docker"}),
    Rule("refused_pyxis", "launcher.refused",
         r"pyxis: (?P<why>(?:couldn't|container start failed|failed to|could not|(?:mkdir|mount|chmod|cp|ln|tar):"
         r" )[^\r\n]{1,200})"
         r"|(?P<why_2>enroot-\w{2,20}: (?:failed|invalid|could not)[^\r\n]{0,200})",
         "slurmstepd: error: pyxis: couldn't start container", {"launcher": "pyxis"}, "NVIDIA pyxis pyxis_slurmstepd.c",
         {"launcher": "pyxis"}),
)  # fmt: skip
