"""What run, resume and plan have in common where blocks go to several hosts."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgtrial.cli.terminal import echo
from pgtrial.errors import SpecError, StoreError
from pgtrial.safe_text import make_visible, shell_word

if TYPE_CHECKING:
    from rich.console import Console

    from pgtrial.design.plan import Plan
    from pgtrial.engine.experiment import Permission
    from pgtrial.fleet.hosts_file import HostsList


def read_hosts(named: str | None, *, runs: bool = True) -> "HostsList | None":
    """The hosts of a list, or those that the workers of a scheduler offer; None without either. Raises SpecError, and
    PreflightError where the extra is missing that a scheduler, or a command which ``runs`` something, needs.
    """
    if named is None:
        return None
    from pgtrial.fleet.extra import require_extra
    from pgtrial.fleet.hosts_file import HostsList, read_fleet
    from pgtrial.fleet.joined import SCHEME

    if runs or "://" in named:
        require_extra()
    if named.startswith(SCHEME):
        return _ask_for_hosts(named)
    if "://" in named:
        raise SpecError(
            f'"{named}" is no fleet: a scheduler is reached by {SCHEME}, so that nobody else gets a word in',
            hint=f'Name a list of hosts, or a scheduler with TLS: "{SCHEME}scheduler:8786".',
        )
    path = Path(named)
    return HostsList(fleet=read_fleet(path), path=path)


def _ask_for_hosts(scheduler: str) -> "HostsList":
    from pgtrial.fleet.joined import ask_for_hosts

    return ask_for_hosts(scheduler, tell=lambda text: echo(make_visible(text), err=True))


def refuse_plan(hosts: "HostsList | None", plan: "Plan") -> None:
    """Raise SpecError where there are several hosts, and the experiment is none for them."""
    if hosts is not None:
        from pgtrial.fleet.fit import refuse_unfit

        refuse_unfit(plan)


def hosts_of(folder: Path, named: "HostsList | None") -> "HostsList | None":
    """On which hosts a result folder is continued: those that are ``named``, or those on record; None for this
    machine, or where nothing is left to do.

    Raises StoreError where the folder was spread over hosts that nobody knows any more.
    """
    from pgtrial.fleet.host_folders import has_blocks_left, is_of_fleet, kept_hosts, kept_scheduler
    from pgtrial.fleet.hosts_file import HostsList

    if named is not None or not is_of_fleet(folder):
        return named
    kept = kept_hosts(folder)
    if kept is None and has_blocks_left(folder):
        raise StoreError(
            f'the blocks of "{folder}" went to several hosts, which are not on record here',
            detail="The record is on the machine that ran the experiment, and of the place where the folder was.",
            hint=f'Name the hosts: "pgtrial resume {shell_word(folder)} --fleet hosts.toml".',
        )
    if kept is not None and (scheduler := kept_scheduler(folder)) is not None:
        return _ask_for_hosts(scheduler) if has_blocks_left(folder) else HostsList(fleet=kept, scheduler=scheduler)
    return None if kept is None else HostsList(fleet=kept)


def run_fleet(
    folder: Path,
    hosts: "HostsList",
    *,
    permission: "Permission",
    console: "Console",
    quiet: bool,
    is_new: bool,
) -> None:
    """Run what is left of a folder on several hosts; a line on the console for whatever happens. Raises as
    ``run_on_fleet``.
    """
    from pgtrial.fleet.experiment import run_on_fleet

    def tell(text: str) -> None:
        if not quiet:
            console.print(make_visible(text), highlight=False, markup=False, soft_wrap=True)

    tell(f"results: {folder}")
    run_on_fleet(
        folder,
        hosts=hosts,
        permission=permission,
        tell=tell,
        stopping=lambda: tell("stopping; every host is put back …"),
        is_new=is_new,
    )
