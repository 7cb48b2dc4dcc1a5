"""What asyncssh keeps of each connection and channel, less what only the handshake needed and what all have alike.

A connection has 140 attributes, of which 100 are the same on all: those stand once, on its class, and come back into
the object when something sets them. Names of asyncssh's insides may be others in another version: then nothing is let
go of.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from logging import INFO, LoggerAdapter
from sys import intern

_LISTS = (
    "_server_host_key_algs", "_kex_algs", "_enc_algs", "_mac_algs", "_cmp_algs", "_sig_algs", "_server_sig_algs",
    "_trusted_host_keys", "_trusted_ca_keys", "_revoked_host_keys", "_x509_revoked_certs", "_preferred_auth",
    "_trusted_host_key_algs", "_x509_trusted_subjects", "_x509_revoked_subjects",
)  # fmt: skip
"""Lists and sets that are alike on all connections to hosts of one kind; asyncssh only reads them."""
_WORDS = (
    "_version", "_client_version", "_server_version", "_peer_host", "_username", "_utf8_decode_errors",
    "_x509_purposes", "_enc_alg_cs", "_enc_alg_sc", "_mac_alg_cs", "_mac_alg_sc", "_cmp_alg_cs", "_cmp_alg_sc",
    "_send_state", "_recv_state", "_errors", "_command",
)  # fmt: skip
"""Texts that are alike on most; no other text is ever held for all of them, such as a password."""
_SPENT = {
    "_client_kexinit": b"", "_server_kexinit": b"", "_server_host_key": None, "_protocol_factory": None,
    "_waiter": None,
}  # fmt: skip
"""What only the handshake needed, and what asyncssh has before one."""
_SELDOM = (
    "_tasks", "_channels", "_deferred_packets", "_global_request_queue", "_global_request_waiters", "_local_listeners",
    "_remote_listeners", "_dynamic_remote_listeners", "_client_host_keys", "_client_keys", "_request_queue",
    "_request_waiters", "_send_buf", "_recv_buf", "_env",
)  # fmt: skip
"""Lists, sets and dictionaries that are empty most of the time."""
_SESSION = (
    "command", "subsystem", "env", "send_env", "request_pty", "term_type", "term_size", "term_modes", "x11_forwarding",
    "x11_display", "x11_auth_path", "x11_single_connection", "encoding", "errors", "window", "max_pktsize",
)  # fmt: skip
"""Options that asyncssh reads once a connection is there: defaults of the sessions that are opened over it."""
MOST = 256
"""Kinds of each that are remembered."""

_lists: dict[tuple[bytes, ...], list[bytes]] = {}
_sets: dict[frozenset[bytes], frozenset[bytes]] = {}
_extensions: dict[tuple[tuple[bytes, bytes], ...], OrderedDict[bytes, bytes]] = {}
_options: dict[str, object] = {}
_loggers: dict[type, object] = {}
_fresh: dict[str, type[list[object]] | type[set[object]] | type[dict[object, object]]] = {}
"""What each of :data:`_SELDOM` is."""


class Bell:
    """An :class:`asyncio.Event` that takes 100 bytes while nobody waits for it, not 700."""

    __slots__ = ("_rung", "_waiting")

    def __init__(self) -> None:
        self._rung = False
        self._waiting: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        """Whether it was rung."""
        return self._rung

    def set(self) -> None:
        """Wake all who wait, and who will."""
        self._rung = True
        waiting, self._waiting = self._waiting, None
        for one in waiting or ():
            if not one.done():
                one.set_result(None)

    def clear(self) -> None:
        """Who comes now waits."""
        self._rung = False

    async def wait(self) -> bool:
        """Wait until it is rung."""
        if self._rung:
            return True
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting = [*(self._waiting or ()), mine]
        try:
            await mine
        finally:
            self._waiting = [one for one in self._waiting or () if one is not mine] or None
        return True


def come_back(thing: object, name: str) -> object:
    """Give an empty one back to whoever asks for it; the ``__getattr__`` of a class whose objects may let go of theirs.

    No base class: Python makes an object one of another class only where that has no further base.
    Raises :class:`AttributeError`.
    """
    made = _fresh.get(name)
    if made is None:
        raise AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}", name=name, obj=thing)
    value = made()
    setattr(thing, name, value)
    return value


def lighten(thing: object) -> None:
    """Give a connection or a channel for whose end nobody waits yet a lighter event, in a dictionary without gaps."""
    event = getattr(thing, "_close_event", None)
    if isinstance(event, asyncio.Event) and not event.is_set():
        thing.__dict__ = {**vars(thing), "_close_event": Bell()}


def slim(connection: object) -> None:
    """Let go of what only the handshake needed, and hold what is alike on all once."""
    options = getattr(connection, "_options", None)
    if isinstance(kwargs := getattr(options, "kwargs", None), dict):
        kwargs.clear()
        with suppress(AttributeError):
            alike = repr([getattr(options, name) for name in _SESSION])
            if alike in _options or len(_options) < MOST:
                vars(connection)["_options"] = _options.setdefault(alike, options)
    for name, value in _SPENT.items():
        if hasattr(connection, name):
            setattr(connection, name, value)
    for name in _LISTS:
        if isinstance(names := getattr(connection, name, None), list | set):
            setattr(connection, name, _held_once(names))
    if isinstance(told := getattr(connection, "_extra", None), dict):
        # names of algorithms and versions, and who it is with: the same on most
        vars(connection)["_extra"] = {name: intern(text) if type(text) is str else text for name, text in told.items()}
    if isinstance(said := getattr(connection, "_extensions_to_send", None), OrderedDict):
        # said at the end of the handshake, and with each exchange of keys the same is put into it anew
        vars(connection)["_extensions_to_send"] = _held_alike(said)
    share_logger(connection)
    compact(connection)


def share_logger(thing: object) -> None:
    """Hold one logger for all, whose lines do not name the connection, while nothing of what it is told is written."""
    logger = getattr(thing, "_logger", None)
    if isinstance(logger, LoggerAdapter) and not logger.isEnabledFor(INFO):
        vars(thing)["_logger"] = _loggers.setdefault(type(logger), logger)


def compact(thing: object) -> None:
    """Take attributes that are as on the first of its kind out of the object: they stand on its class from then on.

    Of one to which it may come back also what is empty and seldom is anything else.
    """
    kind = type(thing)
    fresh = getattr(kind, "__getattr__", None) is come_back
    kept: dict[str, object] = {}
    for name, value in vars(thing).items():
        if fresh and name in _SELDOM and not value and type(value) in (list, set, dict):
            _fresh.setdefault(name, type(value))
            if type(value) is _fresh[name]:
                continue
        if not _plain(name, value):
            kept[name] = value
            continue
        if not hasattr(kind, name):
            setattr(kind, name, value)
        common = kind.__dict__.get(name, kept)
        if type(common) is not type(value) or common != value:
            kept[name] = value
    thing.__dict__ = kept


def _plain(name: str, value: object) -> bool:
    """Whether a value may stand for all: nothing can change it, and it is no secret."""
    return (
        value is None or isinstance(value, int) or name in _LISTS or (name in _WORDS and isinstance(value, str | bytes))
    )


def _held_alike(said: OrderedDict[bytes, bytes]) -> OrderedDict[bytes, bytes]:
    key = tuple(said.items())
    return _extensions.setdefault(key, said) if len(_extensions) < MOST else _extensions.get(key, said)


def _held_once(names: list[bytes] | set[bytes]) -> list[bytes] | frozenset[bytes]:
    """The same names as another connection has."""
    if isinstance(names, set):
        some = frozenset(names)
        return _sets.setdefault(some, some) if len(_sets) < MOST else _sets.get(some, some)
    key = tuple(names)
    return _lists.setdefault(key, names) if len(_lists) < MOST else _lists.get(key, names)
