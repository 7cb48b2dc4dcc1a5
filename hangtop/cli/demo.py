"""``hangtop demo``: a small real job on the live screen."""

from __future__ import annotations

import time

import click

from hangtop.cli.options import SectionedCommand, screen
from hangtop.demo.options import FAULTS, DemoOptions
from hangtop.session.options import SessionOptions

FAULT_LIST = "\b\nFaults:\n" + "\n".join(f"  {name:<14} {what}" for name, what in FAULTS.items())


@click.command("demo", cls=SectionedCommand, epilog=FAULT_LIST)
@screen
@click.option("--fault", type=click.Choice([*FAULTS]), metavar="NAME", help="The fault to start, of the list below.")
@click.option("--fault-rank", metavar="RANK", type=click.IntRange(min=0), default=1, show_default=True,
              help="Rank of the fault.")  # fmt: skip
@click.option("--after", metavar="S", type=click.FloatRange(min=0), default=15.0, show_default=True,
              help="Seconds of training before the fault.")  # fmt: skip
@click.option("--ranks", metavar="N", type=click.IntRange(1, 64), default=4, show_default=True,
              help="Ranks of the job.")  # fmt: skip
@click.option("--nodes", metavar="N", type=click.IntRange(1, 16), default=2, show_default=True,
              help="Nodes of the job.")  # fmt: skip
@click.option("--patience", metavar="S", type=click.FloatRange(1, 86400), default=10.0, show_default=True,
              help="Seconds before a wait is called a hang.")  # fmt: skip
@click.option("--headless", is_flag=True, help="No screen: print a command that reaches the nodes, wait for Ctrl-C.")
def command(
    theme: str, bell: bool, fault: str | None, fault_rank: int, after: float, ranks: int, nodes: int, patience: float,
    headless: bool,
) -> None:  # fmt: skip
    """Start a small real job on simulated nodes and watch it over SSH. It trains or, with --fault, goes wrong.

    Needs no GPU, no cluster, no root and no sshd: the ranks are real (torch over gloo), the SSH servers are embedded,
    nvidia-smi, sysfs and perfquery are simulated and follow the ranks. Nothing is left when the demo ends.
    """
    from hangtop.demo.demo import LABEL, Demo, DemoError

    try:
        asked = DemoOptions(nodes, ranks, fault or "", fault_rank, after)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        with Demo(asked) as demo:
            if headless:
                click.echo(f"hangtop watch -F {demo.ssh_config} {' '.join(demo.nodes)}")
                while True:
                    time.sleep(3600)
            from hangtop.cli.screen import show
            from hangtop.session.live import LiveSession

            options = SessionOptions(targets=demo.nodes, ssh_config=demo.ssh_config, patience=patience, label=LABEL)
            show(LiveSession(options), theme, bell=bell)
    except DemoError as error:
        raise click.ClickException(str(error)) from None
