"""What run, resume and plan have in common where blocks go to several hosts."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgtrial.errors import StoreError
from pgtrial.safe_text import make_visible, shell_word

if TYPE_CHECKING:
    from rich.console import Console

    from pgtrial.design.plan import Plan
    from pgtrial.engine.experiment import Permission
    from pgtrial.fleet.hosts_file import HostsList


def read_hosts(path: Path | None, *, runs: bool = True) -> "HostsList | None":
    """The hosts of a list, None without one. Raises SpecError, and PreflightError where the extra is missing that a
    command which ``runs`` something needs.
    """
    if path is None:
        return None
    from pgtrial.fleet.extra import require_extra
    from pgtrial.fleet.hosts_file import HostsList, read_fleet

    if runs:
        require_extra()
    return HostsList(fleet=read_fleet(path), path=path)


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
    from pgtrial.fleet.host_folders import has_blocks_left, is_of_fleet, kept_hosts
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
