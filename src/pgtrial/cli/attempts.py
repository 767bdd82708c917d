"""What a claim is about beside its file, and how often it was tried already."""

from dataclasses import replace
from pathlib import Path

from pgtrial.cli.checked import Checked
from pgtrial.engine.folder import Tested, claim_of, digest_contents
from pgtrial.store.attempts import count_attempts
from pgtrial.workloads.data_files import digest_of


def claim_about(checked: Checked, revision: str) -> Tested:
    """A server that was built anew is another one, whatever its version says."""
    found = (server.programs for server in checked.servers if server.is_here and server.programs is not None)
    digests = {digest_of(programs.directory, (Path("postgres"),)) for programs in found}
    return Tested(programs=tuple(sorted(digests)), revision=revision)


def with_attempts(checked: Checked, revision: str) -> Checked:
    """The same with the number of attempts at its claim so far; without one of a soak, which has no claim, and where
    data would have to be read for it.
    """
    experiment, plan = checked.loaded.experiment, checked.plan
    if experiment.dataset.load or experiment.design.soak is not None:
        return checked
    contents = digest_contents(experiment, plan.arms, checked.loaded.folder)
    before = count_attempts(claim_of(plan, contents, claim_about(checked, revision)))
    return replace(checked, plan=replace(plan, attempts_before=before))
