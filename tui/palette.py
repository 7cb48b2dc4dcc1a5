"""The command palette: every action that is valid here, every node, every theme."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from tui.actions import ACTIONS, shown_keys
from tui.panels.base import Place
from tui.text import harmless

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.app import HangtopApp


class _Offer(NamedTuple):
    text: str
    help: str
    run: Callable[[], object]
    first: bool
    """Offered before anything was typed."""


class ActionsProvider(Provider):
    """Offers actions by title and help, nodes and themes by name."""

    @property
    def _hangtop(self) -> HangtopApp:
        return cast("HangtopApp", self.app)

    def _offers(self) -> Iterator[_Offer]:
        app = self._hangtop
        for action in ACTIONS:
            if app.is_valid(action) and not action.id.startswith("move."):
                keys = " ".join(shown_keys(app.keys_of(action)))
                yield _Offer(f"{action.title} ({keys})", action.help, partial(app.start, action.id), first=True)
        for node in app.scene.nodes:
            place = Place("ranks", f"node={node.name}")
            yield _Offer(f"Node {harmless(node.name)}", "its ranks", partial(app.start_going, place), first=False)
        for theme in sorted(app.available_themes):
            yield _Offer(f"Theme {theme}", "colours", partial(app.set_theme, theme), first=False)

    async def discover(self) -> Hits:
        """All actions."""
        for offer in self._offers():
            if offer.first:
                yield DiscoveryHit(Content(offer.text), offer.run, offer.text, offer.help)

    async def search(self, query: str) -> Hits:
        """What matches, best first."""
        matcher = self.matcher(query)
        for offer in self._offers():
            score = max(matcher.match(offer.text), 0.6 * matcher.match(offer.help))
            if score > 0:
                yield Hit(score, matcher.highlight(offer.text), offer.run, offer.text, offer.help)
