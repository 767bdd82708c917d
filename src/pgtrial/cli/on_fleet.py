"""What run, resume and plan have in common where blocks go to several hosts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgtrial.cli.terminal import echo
from pgtrial.errors import SpecError, StoreError
from pgtrial.safe_text import make_visible, shell_word

if TYPE_CHECKING:
    from rich.console import Console

    from pgtrial.cli.checked import Checked
    from pgtrial.engine.experiment import Permission
    from pgtrial.experiment_file.load import Place
    from pgtrial.fleet.fit import Alike
    from pgtrial.fleet.hosts_file import HostsList

_NOT_OVER_SSH = "It can be on a host with local = true, or on one whose own worker offers it. Leave the others out."


def read_hosts(named: str | None, *, runs: bool = True) -> "HostsList | None":
    """The hosts of a list, or those that the workers of a scheduler offer; None without either. Raises SpecError, and
    PreflightError where the extra is missing that a scheduler, or a command which ``runs`` something, needs.
    """
    if named is None:
        return None
    from pgtrial.fleet.extra import require_extra
    from pgtrial.fleet.hosts_file import HostsList, read_fleet
    from pgtrial.fleet.scheduler import SCHEME

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


def check_for(hosts: "HostsList | None", check: Callable[["Place"], "Checked"]) -> "Checked":
    """An experiment that ``check`` reads, as it runs on every one of several hosts; as its file says without them.

    Raises SpecError with the names of the hosts where it is not valid.
    """
    from pgtrial.experiment_file.load import AS_WRITTEN, Place, locate_problems, refuse

    if hosts is None:
        return check(AS_WRITTEN)
    from pgtrial.fleet.fit import find_unfit, places_of

    written = check(Place(is_here=False))  # what is wrong wherever it runs
    if unfit := tuple(find_unfit(written.plan)):
        raise refuse(written.loaded.source_name, locate_problems(written.loaded.text, unfit))
    there = [_check_there(check, alike) for alike in places_of(hosts)]
    return _for_all(there[0], written)


def _check_there(check: Callable[["Place"], "Checked"], alike: "Alike") -> "Checked":
    try:
        return check(alike.place)
    except SpecError as err:
        problems = tuple(
            replace(
                problem,
                message=f"on {alike.names}: {problem.message}",
                # The file names no host that could be removed.
                hint=_NOT_OVER_SSH if problem.path == "target.host" else problem.hint,
            )
            for problem in err.problems
        )
        raise SpecError(err.message, problems=problems, source=err.source, detail=err.detail, hint=err.hint) from None


def _for_all(checked: "Checked", written: "Checked") -> "Checked":
    """What was checked for one host, with the target that the file has, and the orders of an experiment over hosts."""
    from pgtrial.design.plan import over_hosts

    target = {"target": written.loaded.experiment.target}
    plan = over_hosts(replace(checked.plan, experiment=checked.plan.experiment.model_copy(update=target)))
    return replace(checked, plan=plan, loaded=replace(checked.loaded, experiment=plan.experiment))


def is_listed(hosts: "HostsList | None", address: str | None) -> bool:
    """Whether an address, or "local", is that of a host which can be asked from here."""
    return hosts is not None and hosts.scheduler is None and any(host.where == address for host in hosts.fleet.host)


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
