"""Attack pgtrial with mutants: ``python -m support.attack --number 10000 --seed 1``."""

import argparse
import collections
import gc
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.attack import continued, folders, others
from support.attack.trial import Attack, Outcome, attack
from support.simulation import DUET, EXPERIMENT, INTERLEAVED

_TEXTS = (EXPERIMENT, INTERLEAVED, DUET)
KINDS = ("folder", "bundle", "state", "file", "resume", "findings")
_SHARES = (2, 2, 3, 3, 1, 1)
_MEMORY = "/dev/shm"  # where nothing waits for a disk: what is written is synced all the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Originals:
    """What is mutated: folders, one for each way to share the time, the first's bundle, a state directory; files are
    texts.
    """

    folders: Sequence[Path]
    bundle: Path
    state: Path

    @classmethod
    def make(cls, place: Path) -> "Originals":
        from pgtrial.export.bundle import write_bundle
        from pgtrial.store.journal_file import VARIABLE

        made = [folders.make_folder(place / str(number), text) for number, text in enumerate(_TEXTS)]
        bundle, state = place / "gift.pgtrial.zip", place / "state"
        write_bundle(made[0], bundle, [])
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(state)
        try:
            others.make_state(state)
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before
        return cls(folders=made, bundle=bundle, state=state)

    def attack_of(self, kind: str, seed: int) -> Attack:
        """Makes the mutant of a kind that has this seed."""

        def make(directory: Path) -> Sequence[Sequence[str]]:
            rng = random.Random(f"{kind} {seed}")
            match kind:
                case "folder":
                    folder = directory / folders.NAME
                    shutil.copytree(rng.choice(self.folders), folder)
                    folders.mutate_folder(folder, rng)
                    return folders.commands(rng, folder)
                case "bundle":
                    bundle = directory / self.bundle.name
                    shutil.copyfile(self.bundle, bundle)
                    others.mutate_bundle(bundle, rng)
                    return others.bundle_commands(rng, bundle, folders.NAME)
                case "state":
                    state = directory / "state"
                    shutil.copytree(self.state, state)
                    others.mutate_state(state, rng)
                    return others.state_commands(rng)
                case "findings":
                    folder = directory / folders.NAME
                    shutil.copytree(rng.choice(self.folders), folder)
                    folders.mutate_findings(folder, rng)
                    return folders.tellings(rng, folder)
                case "resume":
                    folder = directory / folders.NAME
                    shutil.copytree(rng.choice(self.folders), folder)
                    continued.interrupt(folder, rng)
                    return continued.commands(rng, folder)
                case _:
                    file = directory / "e.toml"
                    text = others.mutate_file(rng.choice(others.FILES), rng)
                    file.write_text(text, encoding="utf-8", errors="surrogatepass")
                    return others.file_commands(rng, file)

        return make


def import_all() -> None:
    """What the commands import, so that each new process has it from its beginning."""
    import concurrent
    import encodings
    import importlib
    import pkgutil

    import pgtrial

    # Those of Python's own too, which may lie where somebody without rights does not get.
    for package in (pgtrial, encodings, concurrent):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(("__main__", ".mbcs", ".oem")):
                importlib.import_module(module.name)
    gc.freeze()  # a new process need not copy what it does not change


def attacks(number: int, seed: int) -> Iterator[tuple[str, int]]:
    """(kind, seed) of so many mutants."""
    for i in range(number):
        yield random.Random(f"{seed} {i}").choices(KINDS, _SHARES)[0], seed * 1_000_000 + i


def run(originals: Originals, wanted: Sequence[tuple[str, int]], *, workers: int) -> Iterator[Outcome]:
    """Give every mutant to pgtrial; the outcomes as they come."""
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        yield from pool.imap_unordered(_Attacker(originals=originals), wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attacker:
    originals: Originals

    def __call__(self, each: tuple[str, int]) -> Outcome:
        kind, seed = each
        return attack(f"{kind} {seed}", self.originals.attack_of(kind, seed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, help="all of this kind")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "SEED"), help="one mutant again, as a failure names it")
    default = _MEMORY if os.access(_MEMORY, os.W_OK) else tempfile.gettempdir()
    parser.add_argument("--place", metavar="DIRECTORY", default=default, help="for the mutants (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    import_all()
    begun = time.monotonic()
    found: list[Outcome] = []
    tempfile.tempdir = given.place
    spent = sum(os.times()[:4])
    with tempfile.TemporaryDirectory(prefix="pgtrial-attack-") as place:
        originals = Originals.make(Path(place))
        wanted = [(given.only or kind, seed) for kind, seed in attacks(given.number, given.seed)]
        if given.one:
            wanted = [(given.one[0], int(given.one[1]))]
        for outcome in run(originals, wanted, workers=given.workers):
            found.append(outcome)
            if len(found) % 500 == 0:
                print(f"{_total(found)}; {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            if outcome.problem:
                print(f"{outcome.label}: {outcome.problem}\n", flush=True)
    kinds = {kind: [one for one in found if one.label.split()[0] == kind] for kind in KINDS}
    for kind, mine in kinds.items():
        if mine and len(mine) < len(found):
            print(f"{kind}: {_total(mine)}")
    spent = sum(os.times()[:4]) - spent
    print(f"{_total(found)}; {time.monotonic() - begun:.0f} s, and {spent:.0f} s of CPU time with making them")
    return any(outcome.problem for outcome in found)


def _total(found: Sequence[Outcome]) -> str:
    bad = sum(bool(outcome.problem) for outcome in found)
    statuses = dict(sorted(collections.Counter(outcome.status for outcome in found).items()))
    seconds, elapsed = max(one.seconds for one in found), max(one.elapsed for one in found)
    return (
        f"{len(found)} mutants, {bad} problems; exit codes {statuses}; at most {seconds:.1f} s of CPU time, "
        f"{elapsed:.1f} s without those in which it waited for a CPU, and {max(one.memory for one in found) >> 20} MB"
    )


if __name__ == "__main__":
    sys.exit(main())
