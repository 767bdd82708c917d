import pytest

from pgtrial.postgres.existing.steps import Progress, split_steps


@pytest.mark.parametrize(
    ("script", "steps"),
    [
        ("", []),
        ("UPDATE a SET b = 1; VACUUM a;", ["UPDATE a SET b = 1;", "VACUUM a;"]),
        (
            "SELECT 1; /* both */ begin; UPDATE a SET b = 1; ROLLBACK TO x; rollback work to y; COMMIT; SELECT 2",
            [
                "SELECT 1;",
                "/* both */ begin; UPDATE a SET b = 1; ROLLBACK TO x; rollback work to y; COMMIT;",
                "SELECT 2;",
            ],
        ),
        (
            "START TRANSACTION READ WRITE; SELECT 1; END; BEGIN; ABORT",
            ["START TRANSACTION READ WRITE; SELECT 1; END;", "BEGIN; ABORT;"],
        ),
        (
            "BEGIN; SELECT 1; COMMIT AND CHAIN; SELECT 2; COMMIT",
            ["BEGIN; SELECT 1; COMMIT AND CHAIN; SELECT 2; COMMIT;"],
        ),
        ("BEGIN; SELECT 1", ["BEGIN; SELECT 1;"]),
        ("SELECT 'BEGIN'; beginning; COMMIT", ["SELECT 'BEGIN';", "beginning;", "COMMIT;"]),
    ],
)
def test_a_step_is_what_is_committed_at_once(script: str, steps: list[str]) -> None:
    assert [step.text for step in split_steps(script)] == steps


@pytest.mark.parametrize(
    ("script", "commits"),
    [
        ("-- in parts\nCALL undo()", True),
        ("DO $$ BEGIN COMMIT; END $$", True),
        ("BEGIN; SELECT 1; COMMIT WORK AND CHAIN; COMMIT", True),
        ("BEGIN; CALL undo(); COMMIT", False),
        ("UPDATE a SET b = 'AND CHAIN'", False),
        ("VACUUM", False),
        ("BEGIN; UPDATE a SET b = 1; PREPARE TRANSACTION 'p'; UPDATE c SET b = 1; COMMIT PREPARED 'p'", True),
    ],
)
def test_what_commits_by_itself_is_known(script: str, commits: bool) -> None:
    (step,) = split_steps(script)

    assert step.commits_by_itself is commits


def test_progress_is_read_as_it_was_written() -> None:
    progress = Progress(done=frozenset((0, 2)), at=3, transaction="4711")

    assert Progress.from_text(progress.to_text()) == progress


def test_a_comment_does_not_make_a_statement_concurrent() -> None:
    steps = split_steps("VACUUM FULL t /* not CONCURRENTLY */; DROP INDEX concurrently a")

    assert [step.is_concurrent for step in steps] == [False, True]
