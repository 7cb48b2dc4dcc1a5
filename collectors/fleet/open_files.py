"""Words for what fails because this machine, not the node, lets no further file be opened."""

from __future__ import annotations

import errno
import resource


def are_all_taken(error: OSError) -> bool:
    """True where this process, or this whole machine, has as many files open as it may have."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def reason(error: OSError) -> str:
    """What the system says of an error; of files that may not be opened here also whose limit that is."""
    if error.errno == errno.EMFILE:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        may = "" if soft == hard else f", and may be up to {hard}" if hard != resource.RLIM_INFINITY else ""
        return f"hangtop may open no further file on this machine: its limit (ulimit -n) is {soft}{may}"
    if error.errno == errno.ENFILE:
        return "no further file can be opened on this machine: all programs together are at its limit (fs.file-max)"
    return error.strerror or type(error).__name__
