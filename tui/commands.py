"""The command palette: every action that is valid here, ranks, nodes and themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from hangtop.diagnosis.phrasing import ranks_on, ranks_text
from tui.actions import ACTIONS, shown_keys
from tui.looks.text import harmless
from tui.panels.base import Place

if TYPE_CHECKING:
    from tui.app import HangtopApp

MOST_RANKS = 20


class _Offer(NamedTuple):
    text: str
    help: str
    run: Callable[[], object]


class ActionsProvider(Provider):
    """Offers actions by title and help, everything else by name."""

    @property
    def _hangtop(self) -> HangtopApp:
        return cast("HangtopApp", self.app)

    def _actions(self) -> Iterator[_Offer]:
        app = self._hangtop
        for action in ACTIONS:
            if action.valid(app.panel.can) and not action.id.startswith("move."):
                keys = " ".join(shown_keys(action.keys))
                yield _Offer(f"{action.title} ({keys})", action.help, partial(app.start, action.id))

    def _things(self, query: str) -> Iterator[_Offer]:
        """Ranks whose number begins with what was typed, nodes and themes."""
        app = self._hangtop
        typed = "".join(character for character in query if character.isdigit())
        ranks = (row for row in app.model.ranks if typed and str(row.number).startswith(typed))
        places = [
            (ranks_on([row.number], [row.node.name]).capitalize(), "its process",
             Place("ranks", "", row.number, ranks_text([row.number])))
            for row in islice(ranks, MOST_RANKS)
        ]  # fmt: skip
        places += [(f"Node {one.name}", "its ranks", Place("ranks", f"node={one.name}")) for one in app.model.nodes]
        for text, told, place in places:
            yield _Offer(harmless(text), told, partial(self._start_going, place))
        for theme in sorted(app.available_themes):
            yield _Offer(f"Theme {theme}", "colours", partial(setattr, app, "theme", theme))

    def _start_going(self, place: Place) -> None:
        app = self._hangtop
        app.run_worker(app.go(place), name="go", exit_on_error=False)

    async def discover(self) -> Hits:
        """All actions."""
        for offer in self._actions():
            yield DiscoveryHit(Content(offer.text), offer.run, offer.text, offer.help)

    async def search(self, query: str) -> Hits:
        """What matches by its name, or by what it says."""
        matcher = self.matcher(query)
        for offer in (*self._actions(), *self._things(query)):
            score = max(matcher.match(offer.text), 0.6 * matcher.match(offer.help))
            if score > 0:
                yield Hit(score, matcher.highlight(offer.text), offer.run, offer.text, offer.help)
