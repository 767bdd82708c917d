"""The image and the Job: what they name is there, and the program takes what they tell it."""

import re
from pathlib import Path

import yaml

from pgtrial.cli.main import group

ROOT = Path(__file__).parents[2]


def test_all_that_the_image_copies_is_there() -> None:
    text = (ROOT / "Containerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (.*)", text, re.MULTILINE) for name in line.split()[:-1]]
    locks = re.findall(r"-r /build/(\S+)", text)

    assert copied
    assert all((ROOT / name).exists() for name in [*copied, *locks])
    assert "USER postgres" in text
    assert 'ENTRYPOINT ["pgtrial"]' in text


def test_pip_may_be_told_of_another_index_and_the_program_in_the_image_is_not() -> None:
    text = (ROOT / "Containerfile").read_text()
    _, _, stage = text.partition("\nFROM $BASE\n")

    # Without a default, pip is told nothing by who builds with none; before FROM they would not reach RUN.
    for name in ("PIP_CERT", "PIP_FIND_LINKS", "PIP_INDEX_URL"):
        assert re.search(rf"^ARG {name}$", stage, re.MULTILINE)
    assert not re.search(r"^ENV .*PIP_", stage, re.MULTILINE)


def test_the_job_calls_the_program_as_it_is() -> None:
    (job,) = yaml.safe_load_all((ROOT / "examples/kubernetes-job.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    name, *arguments = container["args"]
    command = group.get_command(group.make_context("pgtrial", []), name)

    assert command is not None
    context = command.make_context(name, [*arguments])
    assert context.params["asserts"] is None or "file" in context.params
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert pod["securityContext"]["runAsNonRoot"]
