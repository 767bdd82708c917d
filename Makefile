# make demo       set up, then answer a question with a known answer on a throw-away server (3 minutes)
# make test       set up, then the checks and tests (pytest last)
# make setup      .venv/bin/pgtrial and what it needs; quick when nothing changed
# make check      format, lint, types, who imports whom, who writes files, spelling
# make test-fast  tests of pure functions, seconds
# make calibration  false-alarm rate and coverage over simulated experiments, and the table of docs/statistics.md, minutes
# make attack     10,000 damaged and forged folders, bundles, journals and files; an hour of a processor that nobody else uses
# make bench      speed and memory of ingestion and report
# make ground-truth  experiments whose cause is known, and whether the analysis finds it; 45 minutes, as root
#                 GROUND_TRUTH="--limits --limit 100min" and others: hours, resumed by the same command (ground_truth/README.md)
# make gym       who grades graders: pgtrial and other tools on machines of which the truth is known; forty minutes
# make gallery    the published experiments in their quick size, and the pages of docs/gallery; at most six hours, as root
# make gym-live   experiments with a known answer on real servers; hours, and resumed by the same command
# make gym-gate   a pipeline's gate before migrations that are known, beside a neighbour; an hour, resumed by the same command
# make docs       the documentation as a site in site/, without a network
# make pages      write the pages of docs/ that are made from the code: knobs, metrics, methods, caveats, the file
# make catalogues collect the texts of the languages, and compile their translations
# make dist       wheel and source archive in dist/, the same to the byte wherever they are built
# make deb        a package for this Debian or Ubuntu in dist/
# make lock       write requirements/*.lock again; UPGRADE=1 moves to the newest versions
# make clean      remove .venv and caches; results/ stays
#
# PYTHON=python3.13 chooses the interpreter, PGTRIAL_EMBEDDED=1 installs PostgreSQL 16 and 18 although there is one,
# DEMO="..." are options of `pgtrial demo`, PYTEST="..." those of pytest, GROUND_TRUTH="...", GYM="...", GALLERY="..." and
# GYM_LIVE="..." those of the ground truth, of the gym, of the gallery and of the live experiments; GYM_GATE="..." of the gates;
# ATTACK="--number 500" those of the attack.

SHELL = /bin/sh
BIN = .venv/bin
PYTHON ?=
DEMO ?=
PYTEST ?=
GROUND_TRUTH ?=
GYM ?=
GALLERY ?=
ATTACK ?=
GYM_LIVE ?=
GYM_GATE ?=
PURE = $(addprefix tests/,collectors design model experiment_file stats workloads test_units.py)
# More than there are processors: some of them wait for a server.
WORKERS = 4
export PYTHON

.DEFAULT_GOAL = help
.PHONY: help setup setup-test demo test check test-fast calibration attack bench pages catalogues ground-truth gym gallery
.PHONY: gym-live gym-gate docs dist deb lock clean

help:
	@sed -n 's/^# \{0,1\}//; /^$$/q; p' Makefile

setup:
	@tools/setup.sh

setup-test:
	@tools/setup.sh test

demo: setup
	@$(BIN)/pgtrial demo $(DEMO)

check: setup-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_writes.py
	$(BIN)/codespell

# While types are checked, the other processor compiles the tests, which each of pytest's would do for itself.
test: setup-test
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 & $(MAKE) --no-print-directory check; status=$$?; wait; exit $$status
	$(BIN)/pytest -m "not slow" --numprocesses=$(WORKERS) $(PYTEST)

test-fast: setup-test
	$(BIN)/pytest -m "not (slow or simulated or pg or browser or fio)" --numprocesses=2 $(PURE) $(PYTEST)

calibration: setup-test
	$(BIN)/pytest -m slow $(PYTEST)
	$(MAKE) --no-print-directory pages
	$(BIN)/python -m gym.exceptions

attack: setup-test
	PYTHONPATH=tests $(BIN)/python -m support.attack $(ATTACK)

bench: setup-test
	@for name in ingest growth page; do echo "$$name"; PYTHONPATH=tests $(BIN)/python benchmarks/$$name.py || exit; done

ground-truth: setup-test
	$(BIN)/python -m ground_truth --allow-host-changes $(GROUND_TRUTH)

gym: setup-test
	@tools/otava.sh
	$(BIN)/python -m gym $(GYM)

gallery: setup-test
	$(BIN)/python -m gallery --allow-host-changes $(GALLERY)

gym-live: setup-test
	@tools/otava.sh
	$(BIN)/python -m gym.live $(GYM_LIVE)

gym-gate: setup-test
	$(BIN)/python -m gym.gate $(GYM_GATE)

docs: setup-test
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "the site begins at site/index.html"

pages: setup-test
	$(BIN)/python tools/generate_docs.py docs

catalogues: setup-test
	$(BIN)/python tools/catalogues.py

# The date in the archives is that of the last entry in Git, unless one is given.
dist: setup-test
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python -m hatchling build --directory dist

deb: setup-test
	@packaging/build_deb.sh

lock: setup-test
	@UPGRADE=$(UPGRADE) tools/lock.sh

clean:
	rm -rf .venv dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks ground_truth gallery gym -name __pycache__ -type d -prune -exec rm -rf {} +
