"""findings.json of a result folder."""

from pathlib import Path

from pydantic import ValidationError

from pgtrial.errors import StoreError
from pgtrial.findings.findings import SCHEMA_VERSION, Findings
from pgtrial.safe_files import read_file, write_file
from pgtrial.safe_text import parse_json
from pgtrial.store import layout

MOST_FINDINGS = 64 << 20  # bytes


def write_findings(findings: Findings, folder: Path) -> Path:
    """Write findings.json of a result folder, replacing an old one at once or not at all; its path."""
    path = folder / layout.FINDINGS
    try:
        write_file(path, findings.model_dump_json(indent=1) + "\n")
    except OSError as err:
        raise StoreError(f'cannot write "{path}": {err.strerror}') from err
    return path


def read_findings(folder: Path) -> Findings:
    """Read findings.json of a result folder; StoreError when it is missing, damaged, or of a newer schema."""
    path = folder / layout.FINDINGS
    rebuild = 'Make it anew from the folder with "pgtrial report".'
    try:
        content = read_file(path, limit=MOST_FINDINGS)
        version = parse_json(content)["schema_version"]
    except OSError as err:
        raise StoreError(f'cannot read "{path}": {err.strerror}', hint=rebuild) from err
    except (ValueError, LookupError, TypeError) as err:
        raise StoreError(f'"{path}" is damaged: it is not the JSON of findings', hint=rebuild) from err
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise StoreError(
            f'"{path}" has schema version {version}, this pgtrial reads up to version {SCHEMA_VERSION}',
            hint="Use the pgtrial version that made it, or a newer one.",
        )
    try:
        findings = Findings.model_validate_json(content)
        findings.model_dump(mode="json")  # puts all its sentences together: then each can be told
    except ValidationError as err:
        first = err.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise StoreError(f'"{path}" is damaged: {where}: {first["msg"]}', hint=rebuild) from err
    except (ValueError, RecursionError) as err:
        raise StoreError(f'"{path}" is damaged: a sentence cannot be told: {err}', hint=rebuild) from err
    return findings
