"""Rules for messages of launchers, engines and schedulers about ranks, jobs and nodes.

torchrun, DeepSpeed, Accelerate, Lightning, mpirun; vLLM, SGLang; Slurm, Kubernetes, Ray. The multi-line report of a
ChildFailedError is parsed by :mod:`collectors.node.logs.elastic_report`.
"""

from __future__ import annotations

from collectors.node.logs.exceptions import TOOLS
from collectors.node.logs.rule import Example, Rule

_TASKS = r"srun: error: (?P<by_host>\S+): (?:task (?P<task>\d+)|tasks (?P<tasks>[\d,\-\[\]]+)): "

RULES = (
    Rule("elastic.failed", "failed (exitcode:",
         r"failed \(exitcode: (?P<exitcode>-?\d+)\)(?: (?:local_rank: )?(?P<local_rank>\d+) \(pid: "
         r"(?P<failed_pid>\d+)\))?",
         Example("E1121 00:12:20 71 api.py:869] failed (exitcode: -9) local_rank: 1 (pid: 4711) of binary: python3",
                 {"exitcode": -9, "local_rank": 1, "failed_pid": 4711},
                 "torch elastic/multiprocessing/api.py")),
    Rule("elastic.signal", "got signal:|death signal,|termination signal:|Main process received",
         r"Process \d+ got signal: (?P<signal>\w+)|Received (?:Signals\.)?(?P<signal_2>SIG\w+|\d+) death signal, "
         r"shutting down workers|Got termination signal: (?:Signals\.)?(?P<signal_3>\w+)|Main process received "
         r"(?P<signal_4>SIG\w+), exiting",
         Example("Process 71 got signal: 15", {"signal": "TERM"}, "torch elastic/multiprocessing/api.py; deepspeed")),
    Rule("elastic.rendezvous", "Rendezvous|endezvous '|endezvous timed out|endezvous has timed out",
         r"(?:has failed to (?P<warned>shutdown|send a keep-alive heartbeat to) the rendezvous [^\r\n]{0,200}?)?"
         r"Rendezvous(?P<problem>Timeout|Closed|Connection|State)Error"
         r"|The rendezvous '[^']*' has (?P<problem_2>been closed|timed out)"
         r"|[Rr]endezvous (?:has )?(?P<problem_3>timed out)",
         Example("W0417 13:22:17.2 6 dynamic_rendezvous.py:1331] The node 'n2_6_0' has failed to shutdown the "
                 "rendezvous '14' due to an error of type RendezvousConnectionError.",
                 {"problem": "Connection", "warned": "shutdown"}, "torch elastic/rendezvous/dynamic_rendezvous.py")),
    Rule("elastic.finished", "worker group successfully|worker group finished",
         r"worker group successfully finished|Local worker group finished \(SUCCEEDED\)",
         Example("worker group successfully finished", {}, "torch elastic/agent/server/api.py")),
    Rule("launcher.exit", "exits with return code", r"exits with return code = (?P<exitcode>-?\d+)",
         Example("[ERROR] [launch.py:325:sigkill_handler] ['python', 'train.py'] exits with return code = -9",
                 {"launcher": "deepspeed", "exitcode": -9}, "deepspeed launch.py"), {"launcher": "deepspeed"}),
    Rule("launcher.exit", "CalledProcessError|died with <Signals",
         r"subprocess\.CalledProcessError" + TOOLS + r": Command '?\[?[^\r\n]*returned non-zero exit status"
         r" (?P<exitcode>-?\d+)|died with <Signals\.(?P<signal>SIG\w+)",
         Example("subprocess.CalledProcessError: Command '['python', 'train.py', '--local_rank=1']' returned non-zero"
                 " exit status 1", {"launcher": "accelerate", "exitcode": 1}, "accelerate launch.py"),
         {"launcher": "accelerate"}),
    Rule("launcher.exit", "Child process with PID",
         r"\[rank: (?P<task>\d+)\] Child process with PID \d+ terminated with code (?P<exitcode>-?\d+)",
         Example("[rank: 1] Child process with PID 4712 terminated with code -11",
                 {"launcher": "lightning", "task": 1, "exitcode": -11},
                 "lightning subprocess_script.py"), {"launcher": "lightning"}),
    Rule("launcher.exit", "terminated with",
         r"[Pp]rocess (?P<task>\d+) terminated with(?:\s{0,4}$| the following error| signal (?P<signal>SIG\w+)"
         r"| exit code (?P<exitcode>-?\d+))",
         Example("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
                 {"launcher": "spawn", "task": 1, "signal": "KILL"}, "torch/multiprocessing/spawn.py"),
         {"launcher": "spawn"}),
    Rule("launcher.exit", "noticed that process rank|has exited due to process rank",
         r"(?:mpirun|mpiexec|prterun)\S* (?:noticed that|has exited due to) process rank (?P<task>\d+) with PID \w+ "
         r"on\s{1,4}node (?P<by_host>\S+)(?P<reason>\s(?:exiting improperly|calling \"abort\"))?(?:\sexited on signal "
         r"(?P<signal>\d+))?",
         Example("mpirun noticed that process rank 3 with PID 71 on node n7 exited on signal 9 (Killed).",
                 {"launcher": "mpi", "task": 3, "signal": "KILL", "by_host": "n7"}, "Open MPI help-orterun.txt"),
         {"launcher": "mpi"}, begins=r"has exited due to process rank \d{1,9} with PID \w{1,12} on(?: node)?\s{0,4}$"),
    Rule("engine.timeout", "RPC call to|Watchdog timeout (self",
         r"RPC call to (?P<call>\w{1,60}) timed out|Watchdog timeout \(self\.watchdog_timeout=(?P<seconds>\d{1,6})",
         Example("TimeoutError: RPC call to execute_model timed out.", {"call": "execute_model"},
                 "vllm multiproc_executor.py; sglang scheduler.py")),
    Rule("launcher.exit", "Worker proc VllmWorker",
         r"(?P<reason>Worker proc VllmWorker-(?P<task>\d{1,5}) died unexpectedly)",
         Example("Worker proc VllmWorker-2 died unexpectedly", {"launcher": "vllm", "task": 2},
                 "vllm multiproc_executor.py"), {"launcher": "vllm"}),
    Rule("slurm.cancelled", "CANCELLED AT|CANCELLED DUE TO|Node failure on",
         r"\*\*\* (?:JOB|STEP) (?P<step>[\w.+\[\]-]+)(?: ON (?P<by_host>\S+))? CANCELLED AT (?!\S+ DUE TO TASK)\S+"
         r"(?: DUE TO (?P<reason>[A-Z ]+))?|(?P<reason_2>Node failure) on (?P<by_host_2>[\w.-]{1,120})"
         r"|(?:slurmstepd|srun): [^\r\n]{0,80}?\bCANCELLED DUE TO (?P<reason_3>[A-Z ]+)",
         Example("slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2026-11-21T00:12:20 DUE TO TIME LIMIT ***",
                 {"step": "77", "reason": "TIME LIMIT", "by_host": "n7"}, "slurm req.c, step_launch.c"),
         {"reason": "user"}),
    Rule("launcher.exit", "srun: error: ",
         _TASKS + r"(?P<reason>Exited with exit code (?P<exitcode>\d+)|(?!Out Of Memory)"
         r"(?:(?P<signal>Segmentation|Bus|Aborted|Illegal|Floating|Killed|Terminated)\b)?[\w ]*)",
         Example("srun: error: n7: tasks 0-1,3: Exited with exit code 1",
                 {"launcher": "slurm", "exitcode": 1, "tasks": [0, 1, 3], "by_host": "n7"}, "slurm task_state.c"),
         {"launcher": "slurm"}),
    Rule("slurm.out_of_memory", "Out Of Memory|kill event|memory limit|oom-kill",
         _TASKS + r"Out Of Memory|[Dd]etected \d+ oom[_-]kill event|slurm[^\n]{0,80}(?:oom-kill[^\n]{0,200}handler"
         r"|[Ee]xceeded (?:job|step) memory limit(?! at some point))",
         Example("srun: error: n7: task 3: Out Of Memory", {"task": 3, "by_host": "n7"},
                 "slurm task_state.c; src/plugins/task/cgroup/task_cgroup_memory.c")),
    Rule("launcher.exit", "OOMKilled", r"[Rr]eason\"?: {0,12}\"?(?P<reason>OOMKilled)\b",
         Example("      Reason:       OOMKilled", {"launcher": "kubernetes", "reason": "OOMKilled", "signal": "KILL"},
                 "kubectl pkg/describe/describe.go"), {"launcher": "kubernetes", "signal": "KILL"}),
    Rule("launcher.exit", "The actor died|The actor is dead|ray.exceptions.|worker died or was killed|running low on",
         r"(?P<reason>The actor (?:died|is dead)[^.\r\n]*|ray\.exceptions\.\w+(?:Died|Crashed|OutOfMemory)\w*"
         r"|A worker died or was killed[^.\r\n]*|Task was killed due to the node running low on memory)"
         r"(?:[^\n]{0,900}? Worker PID: (?P<by_pid>\d{1,9})\b)?"
         r"(?:[\s\S]{0,600}?\n\s{1,8}pid: (?P<by_pid_2>\d{1,9})\s*\n"
         r"[\s\S]{0,300}?\s{1,8}ip: (?P<by_host>[\d.]{7,15}|[0-9a-f:]{3,39})(?:\s|$))?",
         Example("The actor died because of an error raised in its creation task\n\tpid: 71\n\tip: 10.0.0.7",
                 {"launcher": "ray", "reason": "The actor died because of an error raised in its creation task",
                  "by_pid": 71, "by_host": "10.0.0.7"}, "ray core_worker.cc"), {"launcher": "ray"},
         begins=r"The actor (?:died|is dead)[^\r\n]{0,200}[.:]?\s*$"),
    Rule("launcher.lost_node", "marked dead because|Node IP: |Raylet is terminated",
         r"(?:address|ip): (?P<by_host>[\w.:-]{1,80})[^\r\n]{0,120} has been marked dead because the (?:detector"
         r"|monitor)|the node it was running on is dead or unavailable\. Node IP: (?P<by_host_2>[\w.:-]{1,80}),|Raylet "
         r"is terminated(?:: ip=(?P<by_host_3>[\w.:-]{1,80}),|\.)[^\r\n]{0,120}Termination is unexpected",
         Example("address: 10.0.0.7 and node name: 10.0.0.7 has been marked dead because the detector",
                 {"launcher": "ray", "by_host": "10.0.0.7"}, "ray gcs_node_manager.cc"),
         {"launcher": "ray", "why": "it gives no sign of life"}),
)  # fmt: skip
