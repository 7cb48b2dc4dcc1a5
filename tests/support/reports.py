"""torchrun's reports of ranks that failed, for tests of what is read of them."""

from __future__ import annotations

NO_DETAIL = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
"""What stands for a traceback that was not recorded."""
_LINE = "-" * 60 + "\n"


def entry(
    rank: int,
    local: int,
    traceback: str = NO_DETAIL,
    *,
    code: int = 1,
    pid: int = 4156,
    error_file: str = "<N/A>",
    number: int = 0,
) -> str:
    """One rank's part of a report."""
    return (
        f"[{number}]:\n  time      : 2026-05-12_09:27:52\n  host      : n7\n"
        f"  rank      : {rank} (local_rank: {local})\n"
        f"  exitcode  : {code} (pid: {pid})\n  error_file: {error_file}\n  traceback : {traceback}\n"
    )


def report(root: str, *others: str) -> str:
    """A report whole: the first failure's entry, and those that stand above it."""
    above = "".join(others) or "  <NO_OTHER_FAILURES>\n"
    last = "Root Cause (first observed failure):\n"
    return f"train.py FAILED\n{_LINE}Failures:\n{above}{_LINE}{last}{root}{'=' * 60}\n"
