"""What the kernel says of tasks and CPUs that stand still: hung tasks, lists of sleeping ones, lockups."""

from __future__ import annotations

from typing import Optional

from collectors.node import late_re as re
from collectors.node.logs.families.nodes import DAEMONS
from collectors.node.logs.said import Said, fields

_HUNG = re.compile(
    r"task (?P<process>[^\s:]+(?::[^\s:]+)*?):(?P<pid>\d+) (?:\w+ )*"
    r"(?:blocked for more than (?P<seconds>\d+) seconds|blocked on an? \w{3,16},? likely (?:last )?(?:held|owned) by)"
)
_ASLEEP = re.compile(
    r"(?:^|\] )(?:task:)?(?P<process>[\w/:.@+-]{1,40}) {1,24}(?:state:)?D {1,24}(?:[0-9a-f]{8,16} {1,24}(?=0 ))?"
    r"(?:stack: {0,8})?\d{1,20} {1,12}(?:pid: {0,8})?"
    r"(?P<pid>\d{1,9}) {1,12}(?:ppid: {0,8})?\d{1,9} "
)
"""A task in uninterruptible sleep, as the kernel lists it above its stack."""
_LOCKUP = re.compile(
    r"(?P<soft>soft|hard) lockup - CPU#(?P<cpu>\d+) stuck for (?P<seconds>\d+)s!(?:"
    r" \[(?P<process>[^:\]]+))?|(?P<hard>[Hh]ard LOCKUP)(?: on cpu (?P<hard_cpu>\d+))?"
)
_SEGFAULT = re.compile(
    r"(?P<process>[^\s\[\]]{1,64})\[(?P<pid>\d{1,10})\]:? (?:segfault at|general protection fault"
    r"|trap invalid opcode)[^\r\n]{0,400}?(?: in (?P<library>[^\s\[]{1,255}))?(?:\[|$)"
)
_DUMPED = re.compile(
    r"^\s{1,40}Message: Process (?P<pid>\d{1,10}) \((?P<process>[^()\r\n]{1,64})\) of user \d{1,10} dumped core"
)
"""``coredumpctl info`` of a program that somebody asked about; a journal tells of any that a desktop runs."""
_OF_NO_JOB = re.compile(
    r"(?:DedicatedWorker|Web ?Content|Isolated Web Co|Chrome_\w{1,12}|ThreadPool\w{0,16}|chrom(?:e|ium)|firefox"
    r"|thunderbird|electron|code|slack|discord|spotify|steam\w{0,12}|Xorg|Xwayland|gnome-[\w-]{1,12}|plasmashell|kwin\w{0,8}|nautilus"
    r"|geany|gedit|kate|kwrite|dolphin|thunar|xfce4-[\w-]{1,12}|xfwm4|mate-[\w-]{1,12}|cinnamon|soffice\.bin|vlc|mpv"
    r"|zoom|teamviewer\w{0,4}|teams|telegram-desktop|obs|baloo\w{0,16}|akonadi\w{0,16}|InputThread|evolution[\w-]{0,8}|tracker-\w{1,12}"
    r"|gvfs[\w-]{0,12}|pulseaudio|pipewire\w{0,8}|wireplumber|nvidia-smi|nvtop|htop|glances|lspci|dmidecode|ibstat|smartctl|ipmitool"
    r"|postgres|mysqld|mariadbd|mongod|redis-server|nginx|httpd|apache2|libvirtd|qemu-[\w-]{1,12}"
    r"|(?:ba|z|da|k|mk|tc|c|fi)?sh|tmux\S{0,12}|screen|n?vim?|nano|emacs\w{0,4}|less|more|man|git\S{0,12}|ssh|scp|sftp|rsync"
    r"|apt\S{0,8}|dpkg|dnf|yum|rpm|pacman|snap|flatpak|nix\S{0,12}|cargo|rustc|cc1\w{0,6}|ld|make|cmake|ninja"
    r"|\.?(?:ibus|fcitx|uim|kde|kded|ksm|kactivity|konsole|xdg|xfce|sway|hypr|waybar|rofi|dunst|lightdm|sddm"
    r"|gnome|gtk|gjs|mutter|budgie|lxqt|lxpanel|pcmanfm|blueman|bluetooth|cups|colord|packagekit|tumbler|at-spi|dconf)\S{0,16}"
    r"|\.\S{1,13}-wra\S{0,4})\Z"
)
"""Programs of desktops, shells, and tools, that crash by themselves: no rank ended with them.

The last is what NixOS calls a program that it wraps.
"""


def is_of_no_job(program: str) -> bool:
    """Whether a program, by the name that the kernel has for it, is a desktop's or a machine's own."""
    return _OF_NO_JOB.match(program) is not None or DAEMONS.match(program) is not None


def said(text: str) -> Optional[Said]:
    """The event of a line of the kernel's, None where it says nothing of tasks."""
    hung = _HUNG.search(text) or _ASLEEP.search(text)
    if hung is not None:
        return Said("kernel.hung_task", fields(hung, ("pid", "seconds")))
    lockup = _LOCKUP.search(text)
    if lockup is not None:
        data = fields(lockup, ("cpu", "seconds", "hard_cpu"))
        data["hard"] = lockup.group("soft") != "soft"
        for name in ("soft",):
            data.pop(name, None)
        if "hard_cpu" in data:
            data["cpu"] = data.pop("hard_cpu")
        return Said("kernel.lockup", data)
    segfault = _SEGFAULT.search(text) or _DUMPED.search(text)
    program = "" if segfault is None else segfault.group("process")
    if segfault is not None and not is_of_no_job(program):
        return Said("kernel.segfault", fields(segfault, ("pid",)))
    return None
