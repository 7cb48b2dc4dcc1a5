"""Writes ``docs/log-events.md``: the kinds of events that log lines give, made from the rules.

``python docs/make_log_events.py`` after a rule was added or changed; a test says when the page is out of date.
"""

from __future__ import annotations

from pathlib import Path

from collectors.node.logs.rules import SUBJECTS

PAGE = Path(__file__).with_name("log-events.md")
_BY_CODE = (
    ("python.exception", "type, message, signature, consequence, frame, frames, launcher", "tracebacks of Python"),
    ("python.fatal", "error, frame, frames", "faulthandler's dumps"),
    ("elastic.failure", "failed_rank, local_rank, exitcode, failed_pid, signal, root, message", "ChildFailedError"),
    ("elastic.error_file", "message, type, frame, frames", "torchelastic's error.json"),
    ("torch.failed_collective", "frame, frames", "torch's stack of a collective that timed out"),
    ("log.sampled, log.crowded", "bytes, events", "hangtop: a log grows faster than it may be read"),
    ("log.end", "lines, last", "hangtop: where a log ends that nobody writes any more"),
)
_HEAD = """# Events of log lines

A line, or a record of several lines, becomes an event with a kind, a time, a rank, a host, a process, its text and
fields. `hangtop analyze` and the live view read lines by the same rules: one row each in `collectors/node/logs/rules`,
a file a subject. A row has a pattern, the fields that it gives, a sample that is its test, and the source that prints
the line. What no rule knows by name still counts: the last traceback of each rank, and a line at a level for errors
(`log.error`). This page is made from the rows by `docs/make_log_events.py`.

| kind | fields | printed by |
|---|---|---|
"""


def page() -> str:
    """The page as it should be."""
    names: dict[str, set[str]] = {}
    sources: dict[str, dict[str, None]] = {}
    for rules in SUBJECTS.values():
        for rule in rules:
            assert rule.example is not None
            said, source = rule.example.expect, rule.example.source
            names.setdefault(rule.kind, set()).update(name for name in said if not name.startswith("by_"))
            sources.setdefault(rule.kind, {}).setdefault(source.partition(" ")[0].partition("/")[0].rstrip(",;"))
    rows = {kind: (", ".join(sorted(names[kind])), ", ".join(list(sources[kind])[:6])) for kind in names}
    rows.update({kind: (fields, source) for kind, fields, source in _BY_CODE})
    return _HEAD + "".join(f"| `{kind}` | {rows[kind][0]} | {rows[kind][1]} |\n" for kind in sorted(rows))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
