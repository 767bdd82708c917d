"""What runs pipelines, as far as the action for GitHub and the job for GitLab need it: GitHub's runner and GitLab's.

Each step is executed as there: by the shell that it names, with the variables that it gets, in the directory of the
checkout. Expressions are evaluated, and caches and artifacts are directories.

GitHub: docs.github.com, "Workflow syntax", "Metadata syntax", "Variables reference". GitLab: docs.gitlab.com, "CI/CD
YAML syntax reference", "Predefined CI/CD variables reference".
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_INPUT = re.compile(r"\$\[\[ inputs\.(\w+) \]\]")
_SHELLS: Mapping[str, Sequence[str]] = {
    "sh": ("sh", "-e"),
    "bash": ("bash", "--noprofile", "--norc", "-eo", "pipefail"),
}
_COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True, kw_only=True)
class Job:
    """``status`` is that of the first step that failed, ``steps`` that of each that was run, ``printed`` all output."""

    status: int
    steps: Mapping[str, int]
    printed: str


@dataclass(kw_only=True)
class GitHub:
    """A runner with a checkout in ``workspace``; ``temp`` is its own, and empty. ``caches`` outlive it.

    ``programs`` are directories in front of the PATH, ``variables`` what is set beside GitHub's own. Steps named in
    ``without`` are left out.
    """

    workspace: Path
    temp: Path
    caches: Path
    event: str = "push"
    run_id: int = 1
    programs: Sequence[Path] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()

    def run(self, action: Path, **inputs: str) -> Job:
        described = yaml.safe_load((action / "action.yml").read_text())
        assert described["runs"]["using"] == "composite"
        known = {name: str(each.get("default", "")) for name, each in described["inputs"].items()} | inputs
        missing = [name for name, each in described["inputs"].items() if each.get("required") and name not in inputs]
        assert not missing, missing
        files = {f"GITHUB_{name}": self.temp / name.lower() for name in ("PATH", "ENV", "OUTPUT", "STEP_SUMMARY")}
        for path in files.values():
            path.touch()
        context = {
            "github.action_path": str(action),
            "github.event_name": self.event,
            "github.event.pull_request.number": "7" if self.event == "pull_request" else "",
            "github.repository": "owner/shop",
            "github.run_attempt": "1",
            "github.run_id": str(self.run_id),
            "github.token": "a-token",
            "runner.temp": str(self.temp),
            **{f"inputs.{name}": value for name, value in known.items()},
        }
        environment = {
            **os.environ,
            **self.variables,
            **{name: str(path) for name, path in files.items()},
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(action),
            "GITHUB_EVENT_NAME": self.event,
            "GITHUB_REPOSITORY": "owner/shop",
            "GITHUB_RUN_ID": str(self.run_id),
            "GITHUB_SHA": _COMMIT,
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temp),
        }
        status, statuses, printed, to_keep = 0, {}, [], []
        for step in described["runs"]["steps"]:
            condition = str(step.get("if", "success()"))
            wanted = _is_true(_EXPRESSION.sub(r"\1", condition), context, failed=status != 0)
            if not wanted or step["name"] in self.without:
                continue
            if "uses" in step:
                options = {name: _fill(value, context) for name, value in step["with"].items()}
                used = step["uses"].partition("@")[0]
                if used == "actions/cache/save":
                    self._keep(options)
                    continue
                assert used in ("actions/cache", "actions/cache/restore"), used
                self._restore(options)
                if used == "actions/cache":
                    to_keep.append(options)
                continue
            added = [line for line in files["GITHUB_PATH"].read_text().splitlines() if line]
            search = os.pathsep.join([*map(str, reversed(added)), *map(str, self.programs), os.environ["PATH"]])
            own = {name: _fill(str(value), context) for name, value in step.get("env", {}).items()}
            script = self.temp / "step"
            script.write_text(_fill(step["run"], context))
            done = _execute([*_SHELLS[step["shell"]], script], self.workspace, {**environment, "PATH": search, **own})
            statuses[step["name"]] = done.returncode
            printed.append(done.stdout)
            status = status or done.returncode
        for options in to_keep if status == 0 else ():  # as its "post-if: success()" says
            self._keep(options)
        return Job(status=status, steps=statuses, printed="".join(printed))

    def _restore(self, options: Mapping[str, str]) -> None:
        """The newest entry that begins with one of the keys to restore."""
        for beginning in (options["key"], *options.get("restore-keys", "").splitlines()):
            found = sorted(self.caches.glob(f"{_as_name(beginning)}*"), key=lambda path: path.stat().st_mtime_ns)
            if found:
                for path in options["path"].split():
                    kept = found[-1] / Path(path).name
                    if kept.exists():
                        shutil.copy(kept, path)
                return

    def _keep(self, options: Mapping[str, str]) -> None:
        """An entry of the files that are there, if any is."""
        there = [path for path in options["path"].split() if Path(path).exists()]
        if there:
            entry = self.caches / _as_name(options["key"])
            entry.mkdir(exist_ok=True)
            for path in there:
                shutil.copy(path, entry)


def _as_name(key: str) -> str:
    """Of a file for a key, in which no comma may be."""
    assert "," not in key, key
    return key.replace("/", "_")


@dataclass(kw_only=True)
class GitLab:
    """A runner with a checkout in ``workspace``. ``places`` are paths of the image, and where they are here."""

    workspace: Path
    caches: Path
    artifacts: Path
    programs: Sequence[Path] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def run(self, template: Path, **inputs: str) -> Job:
        """Run the only job of a template; one that may fail with its status has the status 0."""
        text = template.read_text()
        header = yaml.safe_load(text.partition("\n---\n")[0])
        declared = header["spec"]["inputs"]
        known = {name: each["default"] for name, each in declared.items() if "default" in each} | inputs
        assert known.keys() == declared.keys(), declared.keys() - known.keys()
        assert all(re.search(each.get("regex", ""), known[name]) for name, each in declared.items())
        filled = _INPUT.sub(lambda match: known[match[1]], text.partition("\n---\n")[2])
        ((name, job),) = yaml.safe_load(filled).items()
        assert job["image"]["entrypoint"] == [""]  # else the runner's shell is an argument of the image's own
        path = os.pathsep.join([*map(str, self.programs), os.environ["PATH"]])
        environment = {
            **os.environ,
            **self.variables,
            "CI": "true",
            "CI_COMMIT_SHA": _COMMIT,
            "CI_PROJECT_DIR": str(self.workspace),
            "GITLAB_CI": "true",
            "PATH": path,
            **job["variables"],
        }
        cache = self.caches / job["cache"]["key"]
        for each in job["cache"]["paths"]:
            if (cache / each).exists():
                shutil.copy(cache / each, self.workspace / each)
        script = "\n".join(job["script"])
        for there, here in self.places.items():
            script = script.replace(there, here)
        done = _execute([*_SHELLS["bash"], "-c", script], self.workspace, environment)
        printed = done.stdout
        if "after_script" in job:  # in a shell of its own, and whatever it says, the job's status stays
            after = "\n".join(job["after_script"])
            for there, here in self.places.items():
                after = after.replace(there, here)
            printed += _execute([*_SHELLS["bash"], "-c", after], self.workspace, environment).stdout
        cache.mkdir(exist_ok=True)
        for each in job["cache"]["paths"]:
            if (self.workspace / each).exists():
                shutil.copy(self.workspace / each, cache / each)
        for pattern in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
            for found in self.workspace.glob(pattern.rstrip("/")):
                to = self.artifacts / found.relative_to(self.workspace)
                shutil.copytree(found, to) if found.is_dir() else shutil.copy(found, to)
        may_fail = done.returncode in job["allow_failure"]["exit_codes"]
        return Job(status=0 if may_fail else done.returncode, steps={name: done.returncode}, printed=printed)


def _execute(
    command: Sequence[str | Path], directory: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*map(str, command)],
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _fill(text: str, context: Mapping[str, str]) -> str:
    return _EXPRESSION.sub(lambda match: context[match[1]], text)


def _is_true(condition: str, context: Mapping[str, str], *, failed: bool) -> bool:
    """A condition of a step: names, texts, "==", "!" and "&&". Without a word on the job's status it needs success."""
    states: Mapping[str, bool] = {"success()": not failed, "failure()": failed, "always()": True, "cancelled()": False}

    def holds(term: str) -> bool:
        if term.startswith("!"):
            return not holds(term[1:].strip())
        if term in states:
            return states[term]
        one, equals, other = term.partition("==")
        return value(one) == value(other) if equals else bool(value(one))

    def value(term: str) -> Any:
        name = term.strip()
        return name[1:-1] if name.startswith("'") else context[name]

    told = any(state in condition for state in states)
    return (told or not failed) and all(holds(term.strip()) for term in condition.split("&&"))
