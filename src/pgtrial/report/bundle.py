"""A result folder as one archive for a colleague: the data, the findings made from just these data, and the report."""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pgtrial import __version__
from pgtrial.analysis.analyze import analyze
from pgtrial.errors import StoreError
from pgtrial.report.html import write_html
from pgtrial.store import bundle, layout
from pgtrial.store.findings_file import write_findings
from pgtrial.store.redact.folder import Copied, copy_folder
from pgtrial.store.redact.known import Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """An archive that was written, and what is to be said about it."""

    packed: bundle.Packed
    copied: Copied
    redacted: tuple[Redaction, ...]


def write_bundle(folder: Path, out: Path | None = None, kinds: Iterable[Redaction] = ()) -> Bundled:
    """Pack a result folder into ``out``, by default NAME.pgtrial.zip in the current directory.

    Whatever is taken out is taken out of the data first; findings and report are then made from what is left, so they
    hold nothing else. The folder is only read. Raises StoreError.
    """
    wanted = tuple(kind for kind in Redaction if kind in set(kinds))
    before = bundle.read_facts(folder)
    target = out.parent if out is not None else Path()
    try:
        with tempfile.TemporaryDirectory(prefix=bundle.TEMPORARY, dir=target) as name:
            copy = Path(name)
            copied = copy_folder(folder, copy, wanted)
            write_findings(findings := analyze(copy), copy)
            write_html(findings, copy / layout.REPORT)
            files = {str(path.relative_to(copy)): path for path in sorted(copy.rglob("*")) if path.is_file()}
            facts = bundle.BundleFacts(
                pgtrial_version=__version__,
                redacted=tuple(dict.fromkeys((*(before.redacted if before else ()), *wanted))),
                left_out=len(copied.left_out),
            )
            packed = bundle.pack(copied.name, files, out or target / f"{copied.name}{bundle.SUFFIX}", facts=facts)
    except OSError as err:
        raise StoreError(f'cannot write a bundle in "{target}": {err.strerror or err}') from err
    return Bundled(packed=packed, copied=copied, redacted=wanted)
