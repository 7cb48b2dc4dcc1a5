"""A live session whose only node is this machine: what is asked of its ranks really is."""

from __future__ import annotations

from collectors.fleet.sink import LinkChange
from collectors.fleet.transport import Transport
from collectors.samples.ranks import RankProcess
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.here import here
from tests.support.made import hello, tick


class LocalSession(Session):
    """Asks this machine, and nobody by itself."""

    can_act = True

    def transport(self, node: str) -> Transport:
        """This machine."""
        return here(node)


def local_session(*ranks: RankProcess, read_only: bool = False) -> LocalSession:
    """A session that has seen these ranks on ``node1``."""
    made = LocalSession(SessionOptions(read_only=read_only))
    made.link(LinkChange("node1", "live", "", made.now()))
    made.samples("node1", [hello(made.now()), *ranks, tick(made.now())])
    return made
