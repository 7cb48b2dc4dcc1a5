"""Daemons that end programs where memory runs low, and journals whose months are in another language."""

from pathlib import Path

import pytest

from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session
from tests.support.logs import only, parse

OOMD = (
    "{when} gpu07 systemd-oomd[931]: Killed {group} due to memory pressure for /user.slice/user-1000.slice being "
    "83.79% > 50.00% for > 20s with reclaim activity\n"
)


@pytest.mark.parametrize("when", ["Apr 16 21:08:50", "avril 16 21:08:50", "4月 16 21:08:50", "Okt. 16 21:08:50"])
def test_systemd_oomd_names_the_node(when: str, tmp_path: Path) -> None:
    (tmp_path / "journal.log").write_text(OOMD.format(when=when, group="/user.slice/app.slice/run-r12.scope"))
    (found,) = diagnose(files_session([tmp_path]).job()).findings
    assert (found.kind, found.nodes) == ("rank_killed", ("gpu07",))
    assert "by systemd-oomd" in found.summary
    assert "kernel" not in found.summary


@pytest.mark.parametrize(
    "group", ["/user.slice/app.slice/app-gnome-firefox-12.scope", "/user.slice/app.slice/app-gnome-slack-9.scope"]
)
def test_programs_of_a_desktop_are_no_ranks(group: str) -> None:
    assert parse(OOMD.format(when="Apr 16 21:08:50", group=group)) == []


def test_earlyoom() -> None:
    text = 'gpu07 earlyoom[12]: sending {} to process 88211 uid 1000 "{}": badness 1201, VmRSS 60211 MiB\n'
    event = only(parse("Apr 16 21:08:50 " + text.format("SIGTERM", "python")), "slurm.out_of_memory")
    assert (event.data["pid"], event.data["process"], event.host) == (88211, "python", "gpu07")
    assert parse("Apr 16 21:08:50 " + text.format("SIGTERM", "firefox")) == []


def test_what_oomd_does_as_a_unit_ends() -> None:
    begun = "Jan 09 14:32:25 n3 systemd-oomd[70]: oomd attempting to kill 113 with KILL\n"
    assert only(parse(begun), "slurm.out_of_memory").data == {"launcher": "systemd-oomd", "pid": 113}
    ended = "Jan 09 14:32:25 n3 systemd[34]: rank0.service: Failed with result 'oom-kill'.\n"
    assert only(parse(ended), "slurm.out_of_memory").data == {"launcher": "systemd", "group": "rank0.service"}
    assert parse("Jan 09 14:32:25 n3 systemd[34]: rank0.service: Failed with result 'exit-code'.\n") == []
