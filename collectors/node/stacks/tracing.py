"""Why a process may not be traced here, and what would change that."""

from __future__ import annotations

import os

from collectors.node import files
from collectors.node.processes import capabilities, process_state


def way_out(pid: int, proc: str = "/proc") -> str:
    """What would let this user trace that process, as far as this node's settings tell."""
    scope = files.read_int(proc + "/sys/kernel/yama/ptrace_scope")
    owner = process_state.identity(pid, proc).uid
    if os.geteuid() == 0:
        if not capabilities.has(capabilities.SYS_PTRACE):
            return (
                "this root lacks CAP_SYS_PTRACE (a container?): start it with --cap-add SYS_PTRACE "
                "(Kubernetes: securityContext.capabilities), or connect to the host"
            )
        if scope == 3:
            return "kernel.yama.ptrace_scope is 3: nobody may trace until the node is booted anew"
        return (
            "root with CAP_SYS_PTRACE was refused: the process may be stuck in the kernel, or a security module forbids"
        )
    if owner is not None and owner != os.geteuid():
        ways = "connect as that user or as root, or allow sudo -n py-spy there and use --sudo"
        return "the process belongs to uid %d: %s" % (owner, ways)
    if scope:
        return (
            "kernel.yama.ptrace_scope is %d: connect as root, allow sudo -n py-spy and use --sudo, or as root run "
            "sysctl kernel.yama.ptrace_scope=0" % scope
        )
    if files.link("%s/%d/ns/user" % (proc, pid)) != files.link(proc + "/self/ns/user"):
        return "the process is in another user namespace (a rootless container): connect as root, or into the container"
    return "connect as root, or allow sudo -n py-spy there and use --sudo"
