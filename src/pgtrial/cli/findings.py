"""The findings of a result folder, for commands that only tell of them."""

from pathlib import Path

from pgtrial.experiment_file.places import is_file
from pgtrial.findings.findings import SCHEMA_VERSION, Findings
from pgtrial.language import ENGLISH, Language
from pgtrial.store import layout
from pgtrial.store.findings_file import read_findings


def find_findings(folder: Path, language: Language) -> Findings:
    """The findings as they were written; made anew where there are none yet, or none that can be told in a language."""
    from pgtrial.analysis.analyze import analyze

    if not is_file(folder / layout.FINDINGS):
        return analyze(folder)
    findings = read_findings(folder)
    has_codes = findings.schema_version == SCHEMA_VERSION  # those of version 1 are sentences in English
    return findings if has_codes or language.code == ENGLISH else analyze(folder)
