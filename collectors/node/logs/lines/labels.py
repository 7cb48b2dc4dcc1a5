"""Labels that launchers, loggers and runtimes put in front of a line: a rank, a host, a process."""

from __future__ import annotations

from typing import Optional, Tuple

from collectors.node import late_re as re

_ROLE = re.compile(r"\[([A-Za-z_]\w*?)[ =:]?(\d{1,7})\]:[ ]?")
_MPI = re.compile(r"\[(?:\d+,)?(?:mpirank:)?(\d{1,7})(?:,[\w.-]{1,60})?\](?:\[[^\]]*\])?<std(?:out|err|diag)>:?[ ]?")
"""Open MPI's and Horovod's; SageMaker's has the host behind the rank."""
_TASK = re.compile(r"[ ]{0,6}(\d{1,6}):(?: (?!\[[A-Za-z]\w{0,60}[./][\w./-]{0,200}[,\]])|$)")
"""Not Horovod's list of ranks: ``1: [allreduce.conv1.weight, …``."""
_HOSTED = re.compile(r"\[([A-Za-z][\w-]*(?:\.[\w-]+)*):(0|[1-9]\d{0,3})\][: ][ ]?")
"""``[node3:17] ``: a host and its rank. Open MPI's process ids have five digits at least."""
_OWNER = r"(?:(?=[\w.-]{0,80}[A-Za-z])\w[\w-]*(?:\.[\w-]+)*|\d{1,3}(?:-\d{1,3}){3})"
"""A host in front of a process id: of a container it is as a rule an id, whose first character may be a digit; some
clouds call a host by its address with dashes."""
_OPEN_MPI = re.compile(
    r" {0,8}\[(" + _OWNER + r"):(\d{1,9})\] (?=\*\*\* |Signal(?: code)?: |Failing at address: "
    r"|\[ ?\d{1,3}\] |Local abort before|PMIX ERROR|\[\[\d{1,9},\d{1,9}\]|(?:ORTE|OPAL|PRTE)_ERROR|mca[_:])"
)
"""A host and a process id, in front of what Open MPI says of a signal or an error."""
_UCX = re.compile(
    r" {0,8}\[(" + _OWNER + r"):(\d{1,9}) ?:\d{1,9}(?::\d{1,9})?\] {1,8}"
    r"(?=Caught signal |[\w.-]{1,60}\.(?:c|cc|h):\d{1,6} )"
)
"""The same of UCX: host, process, threads, then the word of a signal or the place in its source."""
_PETSC = re.compile(r"\[(\d{1,7})\](?=PETSC ERROR: )")
"""PETSc's rank, in front of each line of its reports."""
_STAMPED_MPI = re.compile(
    r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:19|20)\d\d"
    r"(?=\[[\d,]{1,20}\]<std|<std)(?:<std(?:out|err|diag)>: ?)?"
)
"""What ``mpirun --timestamp-output`` puts in front, with and without the rank."""
_XLA_DIST = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}) \[\d{1,6}\] ")
"""The address and the number of a host of a TPU pod, as torch_xla's launcher puts them in front."""
_SOURCE = re.compile(r"\.(?:py|cc|cpp|cxx|cu|c|h|hpp|cuh|rs|go|js|java|sh)$")
_ADDRESS = re.compile(r"(\d{1,3}(?:\.\d{1,3}){3}): ")
"""A host by its address, as pdsh puts it in front."""
_RANKED = re.compile(
    r"[\[(<{]{1,2}(?:global[_ ])?rank[ =:_-]{0,2}(?P<rank>\d{1,7})(?:/\d{1,7})?[\])>}]{1,2}:? {0,2}"
    r"(?=Traceback \(| {2}File \"| {4}|[A-Za-z_][\w.]{1,80}(?:Error|Exception)\b|Fatal Python error: |$"
    r"|(?:Current thread|Thread) 0x)",
    re.IGNORECASE,
)
"""A rank in brackets of a program's own, in front of a traceback: in front of torch's words it may be a group's."""
_MVAPICH = re.compile(r"\[([A-Za-z][\w.-]{0,100}):mpi_rank_(\d{1,7})\](?:\[\w{1,60}\])? ?")
"""MVAPICH2's host and rank, and the function that speaks."""
_NUMBERED = re.compile(r"\[(\d{1,6})/([A-Za-z][\w.-]{0,60}) \((\d{1,9})\)\]:?[ ]?")
"""``[3/train (4711)] ``: rank, name and process id."""
_RANK = re.compile(r"(?:[Rr]ank|RANK)[ =:_-]{0,3}(\d{1,7})[ ]?[:|>][ ]?")
_RAY = re.compile(r"\((?:[\w.:<>-]+,? )?pid=(\d{1,10})(?:, ip=([\w.:-]+))?\)[ ]?")
_SKY = re.compile(
    r"\((?:(?P<node>node-\d{1,5}) |(?P<worker>head|worker\d{1,5}), rank=\d{1,5}, )pid=(?P<pid>\d{1,10})"
    r"(?:, ip=(?P<ip>[\w.:-]+))?\) ?"
)
"""SkyPilot's: the node by its name in the task, and its number among the task's nodes, which is no rank's."""
_LOGGER = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[\w./-]+\.py:\d+\]|[\w.-]+\.py:\d+\]) ?"
)
_NAMED_LOGGER = re.compile(r"(?:- )?[\w.]{1,60} - (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - (?=\[(?:rank|default)\d)")
"""A logger's name and level, in front of what a program says that it runs."""
_PREPENDED = re.compile(
    r"\[(\d{1,6})\] (?=Traceback \(|  |#\d{1,4} |Thread \d{1,5} \(|[\w.]{1,80}(?:Error|Exception)\b)"
)
"""Intel MPI's ``-prepend-rank`` and GASNet's stacks; elsewhere a number in brackets may be anything."""
_REALM = re.compile(r"\[(\d{1,6}) - [0-9a-f]{6,16}\] {1,8}(?:\d{1,9}\.\d{1,9} )?\{\d\}\{[\w.-]{1,60}\}: ")
"""Legion's: rank, thread, seconds, level and logger."""
_DETERMINED = re.compile(
    r"(?:<\w{0,10}> {1,12})?(?:\[20\d\d-\d\d-\d\d[T ][\d:.]{8,20}Z?\] )?(?:[0-9a-f]{6,12} )?"
    r"(?:\[rank=(\d{1,6})\] )?\|\| (?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL): )?"
)
"""Determined's: the level its command line shows, the time, the container's id, the rank."""
_ASSERTS = re.compile(r"[\w./+-]{1,300}\.(?:c|cc|cpp|cxx|cu|h|hpp|inl):\d{1,7}: [^\r\n]{1,600}?: Assertion ")
"""What glibc prints behind a program's own name when an assertion fails."""
_PIPED = re.compile(r"\| ?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) *\| (?:stderr|stdout) \| ?")
_COMPOSE = re.compile(r"([A-Za-z][\w.-]*)[ ]+\| ")
_SERVICE = re.compile(r"[a-z][a-z0-9_.-]{0,80}[a-z0-9][-_]\d{1,4}$")
"""A container of Docker Compose's: its service and its number."""
_POD = re.compile(r"\[pod/([^/\]]+)/[^\]]*\] ")
"""``kubectl logs --prefix``."""
_STERN = re.compile(
    r"((?:[a-z0-9]{1,40}-){2,12}(?:\d{1,4}|[bcdfghjklmnpqrstvwxz2456789]{5})) (?:\u203a )?[a-z][a-z0-9-]{0,40} "
)
"""stern's pod and container: a pod's name ends with its number, or with five characters among which are no vowels."""
_STREAM = re.compile(r"(?:[\w.-]{1,80}/){1,4}(?:(algo-\d{1,4})-\d{10}|[0-9a-f]{16,40}) ")
"""``aws logs tail``: the stream of a job at SageMaker, which has the host's name, or of a task of ECS or Batch."""
_CRI = re.compile(r"(?:stdout|stderr)(?: [FP] |: )")
_HOST = re.compile(r"([A-Za-z][\w-]*(?:\.[\w-]+)*): ")
_NO_HOST = re.compile(
    r"(?i)[\w.-]*(?:error|exception|failure|timeout|died|crashed|killedworker|warning|interrupt"
    r"|exit|info|debug|critical|traceback|failures|note|hint|kernel)$"
    r"|(?:nvidia|enroot|spank|pyxis|flux|containerd|docker|torch|ib|mpi|ucx|conda|apt|dpkg|systemd|modprobe|ld)-[a-z][a-z-]*$"
    r"|(?:epoch|step|loss|iter|batch|(?-i:GPU)|cuda|torch|nccl|layer|rank|line|v|version|python|srun|slurm)[\w.-]*$|gpu\d?$|E[A-Z0-9]\d{4}$"
    r"|(?-i:(?:[A-Z]{2}\d{1,4}_?){1,4})$"
    r"|[\w.-]{1,80}\.(?:sh|bash|csh|ksh|zsh|slurm|sbatch|pbs|py|pl|rb|jl|lua|exe|x|out|bin|sub|cmd)$"
    r"|[\w-]{1,80}(?:\.[\w-]{1,80}){0,4}\.(?:service|socket|scope|slice|mount|timer)$"
)
_SAID_ON = re.compile(
    r"([A-Za-z][\w-]*(?:\.[\w-]+)*): "
    r"(?=\[(?:rank|default)\d{1,7}\]:|\[[DIWEF]\d{3,8} \d\d:\d\d:\d\d"
    r"|\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] \[(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\] )"
)
"""Any word in front of another label or of a logger's time: the host that pdsh names, whatever it is called."""
_NO_RECORD = re.compile(r"(?i)(?:\w{0,40}(?:error|exception)|stderr|stdout|traceback|note)$|(?-i:[A-Z]{4,8})$")
"""What stands in front of such a record and names no host: a level, a stream, an exception that quotes one."""
_FUNCTION = re.compile(r"[a-z]_[a-z]")
"""What names of functions have, and names of hosts may not."""
_CLASS = re.compile(
    r"(?:^|\.)[A-Z][a-z]{1,40}(?:[A-Z][a-z]{1,40}){1,6}$|\.(?:exc|exceptions?|errors?)\.|[a-z](?:Error|Exception)"
)
"""Names of classes, and of modules of exceptions; and those into which several ranks wrote at once."""


def label(text: str) -> Optional[Tuple[int, str, str, str]]:
    """(length, what it names, value, more) of the label in front of a text."""
    first = text[:1]
    piped = _DETERMINED.match(text) if "|| " in text[:80] else None
    if piped is not None:
        return piped.end(), "tag" if piped.group(1) is None else "rank", piped.group(1) or "", ""
    if first in ("[", "(", "<", "{"):
        return _bracketed(text)
    if first == "|":
        match = _PIPED.match(text)
        return None if match is None else (match.end(), "tag", "", "")
    if first.isdigit() or first == " ":
        return _numeric(text)
    if first == "-":
        match = _NAMED_LOGGER.match(text)
        return None if match is None else (match.end(), "tag", "", "")
    if not first.isalpha():
        return None
    match = _RANK.match(text)
    if match is not None:
        return match.end(), "rank", match.group(1), ""
    match = _CRI.match(text) or _LOGGER.match(text) or _NAMED_LOGGER.match(text) or _STAMPED_MPI.match(text)
    if match is not None:
        return match.end(), "tag", "", ""
    match = _COMPOSE.match(text)
    if match is not None:
        service = _SERVICE.match(match.group(1)) is not None and not _NO_HOST.match(match.group(1))
        return match.end(), "host" if service else "tag", match.group(1), ""
    match = _SAID_ON.match(text)
    if match is not None and not _NO_RECORD.match(match.group(1)):
        named = "" if match.group(1) == "localhost" else match.group(1)
        return match.end(), "host" if named else "tag", named, ""
    return _collected(text) or _hosted(text)


def _hosted(text: str) -> Optional[Tuple[int, str, str, str]]:
    match = _HOST.match(text)
    if match is not None and _is_host(match.group(1)) and not _ASSERTS.match(text, match.end()):
        return match.end(), "host", match.group(1), ""
    return None


def _collected(text: str) -> Optional[Tuple[int, str, str, str]]:
    """What tools put in front that collect the logs of many pods or hosts."""
    stream = _STREAM.match(text) if "/" in text[:80] else None
    if stream is not None:
        host = stream.group(1)
        return stream.end(), "host" if host else "tag", host or stream.group().rstrip(), ""
    pod = _STERN.match(text) if "-" in text[:80] else None
    return None if pod is None or _NO_HOST.match(pod.group(1)) else (pod.end(), "host", pod.group(1), "")


def _numeric(text: str) -> Optional[Tuple[int, str, str, str]]:
    """The same where a digit stands first, or an indentation."""
    worker = _XLA_DIST.match(text) or _ADDRESS.match(text)
    if worker is not None:
        return worker.end(), "host", worker.group(1), ""
    match = _TASK.match(text)
    return _process(text) if match is None else (match.end(), "rank", match.group(1), "")


def _bracketed(text: str) -> Optional[Tuple[int, str, str, str]]:
    match = _RANKED.match(text)
    if match is not None:
        return match.end(), "rank", match.group("rank"), ""
    match = _SKY.match(text)
    if match is not None:
        named = match.group("ip") or match.group("node") or match.group("worker")
        return match.end(), "process", match.group("pid"), named
    match = _RAY.match(text)
    if match is not None:
        return match.end(), "ray", match.group(1), match.group(2) or ""
    match = _MVAPICH.match(text)
    if match is not None:
        return match.end(), "hosted", match.group(2), match.group(1)
    match = _ROLE.match(text)
    if match is not None:
        return match.end(), "rank" if match.group(1).lower() in ("rank", "cli_") else "local", match.group(2), ""
    match = _MPI.match(text) or _PETSC.match(text) or _PREPENDED.match(text) or _REALM.match(text)
    if match is not None:
        return match.end(), "rank", match.group(1), ""
    match = _NUMBERED.match(text)
    if match is not None:
        return match.end(), "numbered", match.group(1), match.group(3)
    process = _process(text)
    if process is not None:
        return process
    match = _HOSTED.match(text)
    if match is not None and _is_host(match.group(1)) and not _SOURCE.search(match.group(1)):
        return match.end(), "hosted", match.group(2), match.group(1)
    match = _POD.match(text)
    return None if match is None else (match.end(), "host", match.group(1), "")


def _process(text: str) -> Optional[Tuple[int, str, str, str]]:
    match = _OPEN_MPI.match(text) or _UCX.match(text)
    return None if match is None else (match.end(), "process", match.group(2), match.group(1))


def is_warning(front: str) -> bool:
    """Whether a logger's label tells the level of warnings."""
    return front.startswith("WARNING ") or " - WARNING - " in front or "|| WARNING: " in front


def _is_host(name: str) -> bool:
    """Whether a word in front of a colon may be a host's name."""
    if _NO_HOST.match(name) or _FUNCTION.search(name) or _CLASS.search(name):
        return False
    return bool(re.search(r"[\d.-]", name))
