"""What becomes of a host key that is not trusted: taken, asked about, or refused with what to do."""

from __future__ import annotations

from collections.abc import Callable

import asyncssh

from collectors.fleet.ssh.asking import Questions
from collectors.fleet.ssh.client import Client
from collectors.fleet.ssh.host_keys import HostKeys, fingerprint
from collectors.fleet.ssh.questions import Question
from collectors.fleet.ssh.settings import HostSettings
from collectors.fleet.transport import Declined, Refused


class Trusting:
    """Decides about the hosts of one fleet."""

    def __init__(self, host_keys: HostKeys, questions: Questions) -> None:
        self._host_keys = host_keys
        self._questions = questions

    async def settle(
        self, client: Client, node: str, error: asyncssh.HostKeyNotVerifiable, waiting: Callable[[str], None]
    ) -> None:
        """Decide about a host key that is not trusted; returns when it is now, else raises :class:`Refused`."""
        settings, key, judgement = client.settings, client.shown, client.judgement
        name = settings.known_name
        if judgement.state == "revoked":
            raise Refused(f"{name}: its host key is revoked by {judgement.place}: no connection to whoever has it")
        if key is None or judgement.state == "known":
            raise Refused(f"{name}: {error.reason}")
        shown = fingerprint(key)
        if judgement.state == "changed":
            raise Refused(
                f"{name} shows another host key than before ({shown}). If it was set up anew, remove "
                f"{judgement.place} (ssh-keygen -R {name}); if not, somebody may be listening"
            )
        if settings.strict in ("accept-new", "no"):
            self._remember(settings, key)
            return
        if settings.strict == "yes" or settings.batch:
            raise Refused(f"{name} is in no known_hosts file, and may not be asked about: ssh {settings.original} once")
        detail = f"{shown}\nThe authenticity of {name} cannot be established."
        if judgement.place:
            detail += f"\nOn port 22 it has another key: {judgement.place}"
        waiting("waits for an answer: is this the right host?")
        answer = await self._questions.ask(Question(node, "host_key", f"Trust {name}?", detail, secret=False))
        waiting("")
        if answer not in ("yes", "once"):
            raise Declined(f"{name}: its host key was not accepted ({shown})")
        if answer == "yes":
            self._remember(settings, key)
        else:
            self._host_keys.accept(settings, key, remember=False)

    def _remember(self, settings: HostSettings, key: asyncssh.SSHKey) -> None:
        try:
            self._host_keys.accept(settings, key, remember=True)
        except OSError as error:
            # Trusted for this run all the same: the person has said so.
            self._questions.tell(
                f"{settings.user_known_hosts[0]} cannot be written ({error.strerror}): "
                f"the host key of {settings.known_name} is trusted for this run alone"
            )
