"""Targets beside a throw-away cluster here: another machine by ssh, several versions, a server that was there."""

import json


def shape(value):
    """The structure of a JSON document: keys and types, a list by its first element; numbers are alike."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def differences(one, other, path=""):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key, "absent"), other.get(key, "absent"), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list):
        for first, second in zip(one, other, strict=False):
            yield from differences(first, second, f"{path}[]")
    elif one != other and "NoneType" not in (one, other):
        yield path


def test_the_same_experiment_through_ssh_gives_the_same_findings(finished, new_place, sshd):
    place = new_place("ssh")
    text = (finished.place.directory / "small.toml").read_text()
    target = f'[target]\nhost = "{sshd.address}"\n'
    (place.directory / "small.toml").write_text(
        text.replace("[target]\n", target) if "[target]" in text else text + target
    )
    result = place.run("run", "small.toml", environment={"PGTRIAL_SSH": sshd.ssh()})

    assert result.returncode == 0, result.stderr
    folder = place.only_folder()
    local, remote = (json.loads((path / "findings.json").read_text()) for path in (finished.folder, folder.path))
    # What depends on the numbers: caveats, and facts that one way of reading has and the other has not.
    varying = (".caveats", ".fingerprint", ".runs[].caveats", ".quality")
    assert [path for path in differences(shape(local), shape(remote)) if not path.startswith(varying)] == []
    assert [run["state"] for run in remote["runs"]] == ["done"] * 4
    assert len(folder.query("SELECT 1 FROM event WHERE kind = 'clock'")) == 4
    folder.assert_nothing_left()
