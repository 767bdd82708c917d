import json

import pytest

from pgtrial.cli.main import main


def test_the_schema_is_json_with_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0

    schema = json.loads(capsys.readouterr().out)
    assert set(schema["properties"]) >= {"experiment", "hypothesis", "workload", "arms", "factors", "design"}
    assert schema["required"] == ["format", "experiment", "workload"]
