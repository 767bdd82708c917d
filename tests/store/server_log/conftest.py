"""Message catalogues of PostgreSQL 15.18, as far as they are about what is looked for in a log."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from pgtrial.store.server_log.language import Language, language_of

CATALOGUES = Path(__file__).with_name("catalogues.json")


@pytest.fixture(scope="session")
def catalogues() -> Mapping[str, Mapping[str, str]]:
    """Language to English format to translated format, read from the postgres-15.mo of Debian's package."""
    return json.loads(CATALOGUES.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def languages(catalogues: Mapping[str, Mapping[str, str]]) -> Mapping[str, Language]:
    return {name: language_of(catalogue) for name, catalogue in catalogues.items()}
