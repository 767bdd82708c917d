#!/bin/sh
# Write requirements/*.lock and gym/otava.lock from pyproject.toml. Run by `make lock`; "make lock UPGRADE=1" moves to the
# newest versions.
#
# The locks are made on the oldest supported Python, because a package pinned there has wheels for the newer ones too
# (numpy and scipy drop old Pythons in each minor release). tests/packaging checks that no newer Python needs more.
set -eu
cd "$(dirname "$0")/.."

oldest=3.11
python=.venv/bin/python
upgrade=${UPGRADE:+--upgrade}

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ "$version" != "$oldest" ]; then
    echo "error: the locks are made with Python $oldest, .venv has $version" >&2
    echo "hint: Run \"make clean\", then \"make lock PYTHON=python$oldest\"." >&2
    exit 1
fi

# requirements TABLE...: the list at that place of pyproject.toml, one requirement per line.
requirements() {
    "$python" - "$@" <<'EOF'
import pathlib, sys, tomllib
node = tomllib.loads(pathlib.Path("pyproject.toml").read_text())
for key in sys.argv[1:]:
    node = node[key]
print("\n".join(node))
EOF
}

# compile NAME [OPTION...] <requirements: writes requirements/NAME.lock, consistent with run.lock.
compile() {
    file=requirements/$1.lock
    shift
    compile_file "$file" "$@"
}

# compile_file FILE [OPTION...] <requirements
compile_file() {
    file=$1
    shift
    "$python" -m piptools compile - --quiet $upgrade --output-file "$file" "$@" \
        --generate-hashes --strip-extras --annotation-style line --no-allow-unsafe \
        --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options
    sed -i 's/# via -r -\([ ,]\|$\)/# via pyproject.toml\1/' "$file"
    echo "lock: $file, $(grep -c '==' "$file") packages"
}

"$python" -c 'import piptools' 2>/dev/null || requirements dependency-groups lock | xargs "$python" -m pip install --quiet

requirements project dependencies | compile run
requirements project optional-dependencies embedded | compile embedded --constraint requirements/run.lock
requirements dependency-groups test |
    compile test --constraint requirements/run.lock --constraint requirements/embedded.lock
requirements dependency-groups docs |
    compile docs --constraint requirements/run.lock --constraint requirements/embedded.lock \
        --constraint requirements/test.lock
# An editable installation needs "editables" beside the build system; hatchling asks for it only when it builds.
{ requirements build-system requires; echo editables; } |
    compile build --constraint requirements/run.lock --constraint requirements/embedded.lock \
        --constraint requirements/test.lock --constraint requirements/docs.lock
# It needs other versions than pgtrial does, and is never in the same environment.
requirements dependency-groups gym | compile_file gym/otava.lock
