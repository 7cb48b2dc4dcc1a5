"""What a container's or a structured logger's JSON line wraps: the message, its time, who wrote it.

Docker's json-file has ``log``, journald ``MESSAGE``, Google's agents ``textPayload``, Loki ``line``; structlog,
python-json-logger, zap and logrus ``message``, ``msg`` or ``event`` beside a level and fields of their own.
"""

from __future__ import annotations

import json
from typing import Dict, List, NamedTuple, Optional, Tuple

from collectors.node import late_re as re
from collectors.node.logs.lines import times
from collectors.node.logs.said import number

WRAPPERS = ("log", "message", "msg", "textPayload", "MESSAGE", "line", "data", "event")
_ERRORS = ("error", "err", "exc_info", "exception", "stack_trace", "stacktrace", "traceback", "stack")
"""Fields of a logger in which the error stands beside the message."""
_TIMES = ("time", "timestamp", "ts", "@timestamp", "asctime")
_RANKS = ("rank", "global_rank", "RANK", "dist_rank")
_HOSTS = ("host", "hostname", "node", "node_name", "nodeName", "_HOSTNAME", "HOSTNAME")
_PODS = ("pod", "pod_name", "podName")
"""A pod's name, as agents and stores of logs put it beside the message, or into one of the fields below."""
_INSIDE = ("kubernetes", "labels", "resource", "stream", "metadata")
_NESTED = ("content", "attributes", "jsonPayload", "_source")
"""Fields in which Datadog, Google's and Elastic's stores put the record that they were given."""
_OWN = ("attributes", "extra")
_LEVELS = ("level", "levelname", "severity", "lvl", "log_level")
_GRAVE = re.compile(r"(?i)error|fatal|critical|panic|emerg|alert|crit$|e$|f$")
_NAME = re.compile(r"[A-Za-z0-9][\w.:-]{0,120}")
_BREAK = re.compile(r"\\{1,3}n")
_QUOTE = re.compile(r"\\{1,3}([\"'])")


_MEMBER = re.compile(r"\s{2,40}\"(?:log|message|line|textPayload|MESSAGE)\": (\"[^\r\n]{0,16000}\"),?\s*$")
"""A message on a line of its own, of a document written out over many: ``aws logs get-log-events`` prints it so."""


class Unwrapped(NamedTuple):
    """What a line wraps."""

    text: str
    at: Optional[float] = None
    rank: Optional[int] = None
    host: str = ""


def unwrapped(text: str, now: float) -> Unwrapped:
    """The message of a line of JSON; the line itself where it is none, or has no message."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return Unwrapped(text)
    if not isinstance(document, dict):
        return Unwrapped(text)
    inner = _texts(document, WRAPPERS)
    for name in _NESTED:
        nested = document.get(name)
        if not inner and isinstance(nested, dict):
            document = {**document, **nested}
            inner = _texts(document, WRAPPERS)
    if not inner:
        return Unwrapped(text)
    found = next((found for value in _texts(document, _TIMES) for found in (times.find(value, now),) if found), None)
    message = inner[0].rstrip("\r\n")
    told = [error.rstrip() for error in _texts(document, _ERRORS) if error.strip() and error.strip() not in message]
    level = next(iter(_texts(document, _LEVELS)), "")
    if told:
        message += ("\n" if "\n" in told[0] else ": ") + told[0]
    if _GRAVE.match(level) and "Traceback (" not in message:
        message = "ERROR " + message
    ranks = [fields[name] for fields in (document, *_attributes(document)) for name in _RANKS if name in fields]
    rank = number(str(ranks[0])) if ranks and not isinstance(ranks[0], bool) else None
    host = next((host for host in (*_pods(document), *_texts(document, _HOSTS)) if _NAME.fullmatch(host)), "")
    return Unwrapped(message, None if found is None else found.at, rank, host)


def member(text: str) -> str:
    """The message that a line of a document has; the line itself where it has none."""
    match = _MEMBER.match(text) if text.startswith("  ") and '": "' in text[:80] else None
    if match is None:
        return text
    try:
        said = json.loads(match.group(1))
    except ValueError:
        return text
    return str(said).rstrip("\r\n")


def lines(text: str) -> List[str]:
    """The lines of a message that was put into one, with real line ends or written-out ones around a traceback."""
    if "Traceback (" in text and "\\n" in text:
        text = _QUOTE.sub(r"\1", _BREAK.sub("\n", text))
    return text.split("\n") if "\n" in text else [text]


def _attributes(document: "Dict[str, object]") -> "List[Dict[str, object]]":
    """Fields of the program's own, that a store keeps beside the message."""
    return [value for name in _OWN for value in (document.get(name),) if isinstance(value, dict)]


def _pods(document: "Dict[str, object]") -> List[str]:
    """Names of the pod: each has a host's name of its own, whatever node it runs on."""
    inside = [value for name in _INSIDE for value in (document.get(name),) if isinstance(value, dict)]
    deeper = [value for fields in inside for value in (fields.get("labels"),) if isinstance(value, dict)]
    return [pod for fields in (document, *inside, *deeper) for pod in _texts(fields, _PODS)]


def _texts(document: "Dict[str, object]", names: Tuple[str, ...]) -> List[str]:
    """Values of the named fields that are texts."""
    return [value for name in names for value in (document.get(name),) if isinstance(value, str)]
