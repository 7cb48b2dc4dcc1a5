"""The TCP store and the ranks' first meeting: who did not come, what did not answer, which port is taken."""

from __future__ import annotations

from typing import Iterator

from collectors.node import late_re as re
from collectors.node.logs.said import Data, Family, Said, fields, number

_CLIENTS = re.compile(
    r"Timed out after (?P<seconds>\d+) seconds waiting for clients\.\s*(?P<joined>\d+)/(?P<expected>\d+) clients joined"
)
_BARRIER = re.compile(
    r"Timed out (?:initializing process group|waiting).{0,400}?store based barrier.{0,400}?"
    r"world_size=(?P<expected>\d+),\s*(?:worker_count|num_workers_joined)=(?P<joined>\d+)",
    re.S,
)
_BARRIER_ENDED = re.compile(r"[Tt]imed out initializing process group in store based barrier")
_WAITING = re.compile(
    r"Waiting in store based barrier to initialize process group for (?:rank: )?(?P<of_rank>\d+)[^\r\n]{0,120}?"
    r"world_size=(?P<expected>\d+), (?:worker_count|num_workers_joined)=(?P<joined>\d+)"
)
_CAME = re.compile(r"Rank (?P<of_rank>\d+): Completed store-based barrier")
_CONNECT = re.compile(
    r"The client socket has (?:timed out after (?P<ms>\d+)\s*(?P<unit>ms|s)? ?while trying to connect to"
    r"|failed to connect to(?P<whole> any network address of)?)"
    r" \[?\(?(?P<address>[^\s,\])]+?)\]?(?:, ?|:)(?:(?P<port>\d+)|[A-Za-z_]+)"
)
_FAMILY = re.compile(
    r"client socket has failed to connect to \[?(?P<address>[^\s,\])]{1,200}\]?):(?P<port>\d{1,5}) \(errno: (?:97|22) "
)
"""One address of a name that has others: no IPv6 here, or a link-local one. The next address works as a rule."""
_CONNECT_OLD = re.compile(
    r"connect\(\) timed out|(?:TCPStore|c10d).*?[Cc]onnection (?:refused|timed out)"
    r"|Failed to connect to.*?\((?P<address>[^\s,()]+), (?P<port>\d+)\)"
)
_RETRY = re.compile(r"failed to connect/validate to host (?P<address>\S+):(?P<port>\d+) - (?P<what>retrying|timed out)")
_WAIT = re.compile(
    r"wait timeout after (?P<ms>\d+)ms(?:, keys: (?P<keys>[^\r\n]+))?|(?P<socket>Socket Timeout)\b"
    r"|Timeout waiting for key: (?P<key>\S+)(?: after (?P<old_ms>\d+) ?ms)?"
)
_INPUT = re.compile(
    r"waitForInput: socket SocketImpl\([^\r\n]{0,200}?remote=\[(?P<address>[^\]\s]{1,120})\]:(?P<port>\d{1,5})\)"
    r" timed out after (?P<ms>\d{5,12})ms"
)
"""A client's word that the store did not answer; after less than ten seconds it is asked again."""
_UNIQUE_ID = re.compile(r"\[(?P<waiting>\d+)\] is setting up NCCL communicator .*? from \[(?P<from_rank>\d+)\]")
_IN_USE = re.compile(r"EADDRINUSE|[Aa]ddress already in use|Errno 98\b")
_PORT = re.compile(
    r"port[:= ]{1,4}(\d{1,9})|\[::\]:(\d{1,9})|(?<![\w.])\[?[\d.:a-f]{1,64}\]?:(\d{1,9})|\('[^']{0,255}', (\d{1,9})\)"
    r"|address \(.{0,255}?, (\d{1,9})\)"
)
_GAI = re.compile(r"network addresses of \((?P<address>[^,]+), (?P<port>\d+)\) cannot be retrieved")
_GAI_OTHER = re.compile(r"(?:[Nn]ame or service not known|Temporary failure in name resolution|nodename nor servname)")
_LOST = re.compile(
    r'Failed to check the "should dump" flag on TCPStore|dump flag from the global store\.|'
    r"(?:sendBytes|sendVector) failed|"
    r"(?:recvValue|recvBytes|recvVector) failed|"
    r"Failed to recv, got 0 bytes|TCPStore.*?(?:Broken pipe|Connection reset)|Broken pipe.*?TCPStore|"
    r"\[c10d\].*?(?:Broken pipe|Connection reset)"
)
_GETTING = re.compile(r"store->get\('(?P<keys>[^']*)'\) got error: (?P<error>[^\r\n]*)")


def read(text: str) -> Iterator[Said]:
    """Events of one line."""
    for phase, pattern in (("clients", _CLIENTS), ("barrier", _BARRIER)):
        match = pattern.search(text)
        if match is not None:
            data = fields(match, ("seconds", "joined", "expected"))
            data["phase"] = phase
            yield Said("torch.store_timeout", data)
            return
    waiting, came = _WAITING.search(text), _CAME.search(text)
    if waiting is not None:
        data = fields(waiting, ("expected", "joined"))
        data.pop("of_rank", None)
        yield Said("torch.store_waiting", data, rank=number(waiting.group("of_rank")))
        return
    if came is not None:
        yield Said("torch.store_complete", {}, rank=number(came.group("of_rank")))
        return
    if _BARRIER_ENDED.search(text):
        yield Said("torch.store_timeout", {"phase": "barrier"})
        return
    retry = _RETRY.search(text)
    if retry is not None:
        data = fields(retry, ("port",))
        final = data.pop("what", "") == "timed out"
        yield Said(
            "torch.store_timeout" if final else "torch.store_retry", dict(data, phase="connect") if final else data
        )
        return
    family = _FAMILY.search(text)
    if family is not None:
        yield Said("torch.store_retry", fields(family, ("port",)))
        return
    connect = _CONNECT.search(text)
    if connect is not None:
        yield Said("torch.store_timeout", _connecting(connect.groupdict()))
        return
    gai = _GAI.search(text)
    if gai is not None:
        yield Said("torch.unresolved", fields(gai, ("port",)))
        return
    if _IN_USE.search(text):
        yield Said("torch.address_in_use", _port(text))
        return
    if _LOST.search(text):
        yield Said("torch.store_lost", {})
        return
    yield from _waits(text)


def _waits(text: str) -> Iterator[Said]:
    getting = _GETTING.search(text)
    wait = _WAIT.search(text)
    if wait is not None:
        data: Data = {"phase": "wait"}
        milliseconds = number(wait.group("ms") or wait.group("old_ms"))
        if milliseconds is not None:
            data["seconds"] = milliseconds / 1000.0
        keys = wait.group("keys") or wait.group("key") or (getting.group("keys") if getting is not None else None)
        if keys:
            data["keys"] = keys[:300]
        yield _by_whom("torch.store_timeout", data, text)
    elif (silent := _INPUT.search(text)) is not None:
        asked: Data = {"phase": "wait", "address": silent.group("address"), "port": number(silent.group("port"))}
        yield Said("torch.store_timeout", dict(asked, seconds=int(silent.group("ms")) / 1000.0))
    elif getting is not None:
        yield _by_whom("torch.store_lost", fields(getting), text)
    elif _CONNECT_OLD.search(text):
        yield Said("torch.store_timeout", dict(fields(_found(text), ("port",)), phase="connect"))
    elif _GAI_OTHER.search(text):
        yield Said("torch.unresolved", {})


def _by_whom(kind: str, data: Data, text: str) -> Said:
    """A wait for the identifier of a communicator tells who waited, and for whom."""
    ranks = _UNIQUE_ID.search(text)
    if ranks is None:
        return Said(kind, data)
    data["from_rank"] = number(ranks.group("from_rank"))
    return Said(kind, data, rank=number(ranks.group("waiting")))


def _found(text: str) -> "re.Match[str]":
    match = _CONNECT_OLD.search(text)
    assert match is not None
    return match


def _connecting(found: "dict[str, str | None]") -> Data:
    data: Data = {"phase": "connect", "address": found["address"], "port": number(found["port"])}
    if found["whole"]:
        data["whole"] = True
    elapsed = number(found["ms"])
    if elapsed is not None:
        data["seconds"] = elapsed / 1000.0 if found["unit"] == "ms" else float(elapsed)
    return data


def _port(text: str) -> Data:
    match = _PORT.search(text)
    if match is None:
        return {}
    port = number(next(group for group in match.groups() if group is not None))
    return {} if port is None or not 0 < port < 65536 else {"port": port}


FAMILY = Family(
    "store",
    (
        b"clients joined",
        b"store based barrier",
        b"store-based barrier",
        b"client socket has",
        b"connect/validate",
        b"cannot be retrieved",
        b"EADDRINUSE",
        b"ddress already in use",
        b"Errno 98",
        b"TCPStore",
        b"[c10d]",
        b"Bytes failed",
        b"Value failed",
        b"Vector failed",
        b"got 0 bytes",
        b"global store",
        b"wait timeout after",
        b"imeout waiting for key",
        b"Socket Timeout",
        b"connect() timed out",
        b"store->get(",
        b"waitForInput: socket",
        b"ame or service not known",
        b"in name resolution",
    ),
    read,
    re.compile(r"Timed out after \d{1,9} seconds waiting for clients\.?\s{0,9}\d{0,9}/?\d{0,9}$"),
)
