"""Stacks by other ways than py-spy, where that gave no thread: the rank's own Python, its debug server, its signal."""

from __future__ import annotations

from collectors.node.stacks import own_stacks, served_stacks, signalled_stacks
from collectors.samples.stacks import StackDump


class OtherStacks:
    """The ways of one node. After a debug server that kept silent none is asked in the same request."""

    def __init__(self) -> None:
        self._silent = False

    def begin(self) -> None:
        """Another request: servers are asked again."""
        self._silent = False

    def instead(self, dump: StackDump, signal: bool) -> StackDump:
        """The same look with the threads that another way tells, or with why none does.

        With ``signal`` a process may be sent the one that it named for this: somebody agreed to it.
        """
        found = self._served(_own(dump))
        return _signalled(found) if signal else found

    def _served(self, dump: StackDump) -> StackDump:
        """What the process's own debug server says where py-spy may not look."""
        if self._silent:
            return dump
        try:
            return served_stacks.instead(dump) or dump
        except OSError as error:
            self._silent = True
            return dump._replace(error="%s; its debug server: %s" % (dump.error, error.strerror or error))


def _signalled(dump: StackDump) -> StackDump:
    """What it writes on the signal that it named for this."""
    try:
        return signalled_stacks.instead(dump) or dump
    except OSError as error:
        return dump._replace(error="%s; its faulthandler: %s" % (dump.error, error.strerror or error))


def _own(dump: StackDump) -> StackDump:
    """What the process's own interpreter reads of it where py-spy knows its Python too little."""
    try:
        return own_stacks.instead(dump) or dump
    except (OSError, ValueError, TypeError) as error:
        said = getattr(error, "strerror", None) or error
        return dump._replace(error="%s; its own Python: %s" % (dump.error, said))
