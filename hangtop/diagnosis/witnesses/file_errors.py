"""What a file system refused, by the words of the error: what to look at is another thing for each."""

from __future__ import annotations

_TOLD: tuple[tuple[tuple[str, ...], str], ...] = (
    (("No space left on device", "Errno 28]", "ENOSPC"), "The file system that it writes to is full: df -h and df -i."),
    (("Disk quota exceeded", "Errno 122]", "EDQUOT"), "The quota of its user is used up: quota -s, lfs quota."),
    (("Read-only file system", "Errno 30]"), "The file system is read-only, often so since errors: dmesg, mount."),
    (("Stale file handle", "Errno 116]"), "The file server has other files by now: mount it anew on this node."),
    (("Input/output error", "Errno 5]"), "The disk or the file server reports errors: dmesg of its node."),
)
_ARCHIVE = ("inline_container.cc", "basic_ios::clear: iostream error", "PytorchStreamWriter failed writing")
_WRITES = ("unexpected pos", "failed writing", "iostream error")
"""What torch's archive says where it writes: it has the same file for what it reads."""
_NOT_WHOLE = (
    "torch could not write the whole file, most often because the file system is full or over quota: "
    "df -h, df -i, quota -s."
)


def file_advice(what: str) -> str:
    """What to look at where an error tells of a file system; empty for any other error."""
    if any(word in what for word in _ARCHIVE) and any(word in what for word in _WRITES):
        return _NOT_WHOLE
    return next((advice for words, advice in _TOLD if any(word in what for word in words)), "")
