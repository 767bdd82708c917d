"""The action for GitHub and the job for GitLab gate a migration, with a real experiment; only what installs pgtrial is
left out, and GitHub's command is a stand-in.
"""

import sys
from pathlib import Path

import pytest

from pgtrial.store.journal_file import VARIABLE
from support.forge import TOKEN, open_forge
from support.pipelines import GitHub, GitLab
from support.programs import needs_gh

ROOT = Path(__file__).parents[2]
GATE = """
format = 1

[experiment]
name = "gate"

[hypothesis]
claim  = "the migration costs nothing that matters"
arm    = "after"
expect = "not-worse"
margin = "50%"

[dataset]
kind  = "sql"
setup = "schema.sql"

[workload]
clients  = 2
duration = "1s"
warmup   = 0
scenario = [{ name = "read", file = "read.sql" }]

[design]
method = "blocks"
blocks = 1

[arms.before]

[arms.after]
"""
INVALID, INCONCLUSIVE = 5, 4  # what one block says, and what two say
GH = """#!/bin/sh
printf '%s\\n' "$*" >> {log}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A checkout with a gate and a migration."""
    for name, text in {
        "performance/gate.toml": GATE,
        "performance/schema.sql": "CREATE TABLE goods AS SELECT i FROM generate_series(1, 100) AS i;\n",
        "performance/read.sql": "\\sleep 4 ms\nSELECT count(*) FROM goods;\n",
        "migrations/next.sql": "ALTER TABLE goods ADD COLUMN note text;\n",
    }.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "shop"


@pytest.fixture
def variables(tmp_path: Path, pg_config: str) -> dict[str, str]:
    return {"PG_CONFIG": pg_config, VARIABLE: str(tmp_path / "state")}


def make(*directories: Path) -> None:
    for directory in directories:
        directory.mkdir()


def test_the_action_gates_a_pull_request(shop: Path, tmp_path: Path, variables: dict[str, str]) -> None:
    programs, caches = tmp_path / "programs", tmp_path / "caches"
    make(programs, caches)
    (programs / "gh").write_text(GH.format(log=tmp_path / "gh.log"))
    (programs / "gh").chmod(0o755)

    for run_id in (1, 2):
        temp = tmp_path / f"temp{run_id}"
        make(temp)
        runner = GitHub(
            workspace=shop,
            temp=temp,
            caches=caches,
            event="pull_request",
            run_id=run_id,
            programs=[programs, Path(sys.executable).parent],
            variables=variables,
            without=["Install pgtrial, and PostgreSQL where there is none"],
        )
        job = runner.run(ROOT, experiment="performance/gate.toml", migration="migrations/next.sql")

        assert job.status == INVALID, job.printed
        assert job.steps == {"Experiment": INVALID, "Summary": 0, "Comment": 0}
        assert "ALTER TABLE goods ADD COLUMN note text" in job.printed
        summary = (temp / "step_summary").read_text()
        assert summary.startswith("<!-- pgtrial performance/gate -->\n")
        # The second run knows of the first, whose history went through the cache.
        assert summary.count("0123456") == run_id - 1

    written = [line for line in (tmp_path / "gh.log").read_text().splitlines() if "--method" in line]
    assert (
        written
        == [
            "api --method POST repos/owner/shop/issues/7/comments --field body=@performance/pgtrial.md",
        ]
        * 2
    )
    assert sorted(path.name for path in caches.iterdir()) == [
        f"pgtrial-history--performance_gate.toml-{run_id}-1-migrations_next.sql" for run_id in (1, 2)
    ]


@needs_gh
def test_the_second_run_of_the_action_replaces_the_comment_of_the_first(
    shop: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    """By GitHub's own command, against a stand-in for the API. A workflow's own token may not ask who it is."""
    caches = tmp_path / "caches"
    make(caches)
    with open_forge() as forge:
        forge.user, forge.comments = "", [("somebody", "Is it slower?")]
        for run_id in (1, 2):
            temp = tmp_path / f"temp{run_id}"
            make(temp)
            runner = GitHub(
                workspace=shop,
                temp=temp,
                caches=caches,
                event="pull_request",
                run_id=run_id,
                programs=[Path(sys.executable).parent],
                variables={**variables, **forge.for_gh(tmp_path)},
                without=["Install pgtrial, and PostgreSQL where there is none"],
            )
            job = runner.run(ROOT, experiment="performance/gate.toml", migration="migrations/next.sql")
            assert job.steps["Comment"] == 0, job.printed
            assert "::warning::" not in job.printed

    assert forge.changes == [
        ("POST", "/repos/owner/shop/issues/7/comments"),
        ("PATCH", "/repos/owner/shop/issues/comments/101"),
    ]
    (author, text) = forge.comments[1]
    assert author == "github-actions[bot]"
    assert text.startswith("<!-- pgtrial performance/gate -->\n## ")
    assert text == (shop / "performance/pgtrial.md").read_text()
    assert text.count("0123456") == 1  # the second run knows of the first


def test_the_action_writes_no_comment_where_there_is_no_pull_request(
    shop: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    temp, caches = tmp_path / "temp", tmp_path / "caches"
    make(temp, caches)
    (shop / "migrations/next.sql").write_text("ALTER TABLE nonsense ADD COLUMN note text;\n")
    runner = GitHub(
        workspace=shop,
        temp=temp,
        caches=caches,
        programs=[Path(sys.executable).parent],
        variables=variables,
        without=["Install pgtrial, and PostgreSQL where there is none"],
    )

    job = runner.run(ROOT, experiment="performance/gate.toml", migration="migrations/next.sql")

    assert job.steps.keys() == {"Experiment", "Summary"}
    assert job.status == 1
    assert 'relation "nonsense" does not exist' in job.printed


def test_the_job_for_gitlab_warns_where_nothing_is_decided(
    shop: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    (shop / "performance/gate.toml").write_text(GATE.replace("blocks = 1", "blocks = 2"))
    caches, artifacts = tmp_path / "caches", tmp_path / "artifacts"
    make(caches, artifacts, artifacts / "performance")
    runner = GitLab(
        workspace=shop,
        caches=caches,
        artifacts=artifacts,
        programs=[Path(sys.executable).parent],
        variables=variables,
        places={"/usr/share/pgtrial": str(ROOT)},
    )

    job = runner.run(ROOT / "templates/gate.yml", experiment="performance/gate.toml", migration="migrations/next.sql")

    assert job.status == 0, job.printed
    assert job.steps == {"pgtrial-gate": INCONCLUSIVE}
    assert (artifacts / "performance/pgtrial.xml").exists()
    assert (artifacts / "performance/pgtrial.md").exists()
    assert list(artifacts.glob("performance/results/gate-*/findings.json"))
    assert (caches / "pgtrial-history-pgtrial-gate/pgtrial-history.jsonl").exists()


def test_the_second_run_of_the_job_for_gitlab_replaces_the_note_of_the_first(
    shop: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    """Whatever the verdict: a note is no part of it."""
    caches = tmp_path / "caches"
    make(caches)
    with open_forge() as forge:
        forge.comments = [("somebody", "Is it slower?")]
        for number in (1, 2):
            artifacts = tmp_path / f"artifacts{number}"
            make(artifacts, artifacts / "performance")
            runner = GitLab(
                workspace=shop,
                caches=caches,
                artifacts=artifacts,
                programs=[Path(sys.executable).parent],
                variables={
                    **variables,
                    "CI_API_V4_URL": f"{forge.address}/api/v4",
                    "CI_PROJECT_ID": "3",
                    "CI_MERGE_REQUEST_IID": "7",
                    "PGTRIAL_GITLAB_TOKEN": TOKEN,
                },
                places={"/usr/share/pgtrial": str(ROOT)},
            )
            template = ROOT / "templates/gate.yml"
            job = runner.run(template, experiment="performance/gate.toml", migration="migrations/next.sql")
            assert job.status == INVALID, job.printed

    notes = "/api/v4/projects/3/merge_requests/7/notes"
    assert forge.changes == [("POST", notes), ("PUT", f"{notes}/101")]
    assert forge.comments[1] == ("gate", (shop / "performance/pgtrial.md").read_text())
    assert forge.comments[1][1].count("0123456") == 1
