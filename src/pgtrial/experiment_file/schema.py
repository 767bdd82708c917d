"""The file format for editors: a JSON Schema."""

import json

from pgtrial.experiment_file.experiment import Experiment


def render_schema() -> str:
    """JSON text, ending in a line feed."""
    schema = Experiment.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "pgtrial experiment file"}
    return json.dumps({**schema, **head}, indent=2, ensure_ascii=False) + "\n"
