#!/bin/sh
# Make .venv/otava hold Apache Otava, which the gym grades, as gym/otava.lock pins it. Run by `make gym`.
#
# It needs other versions of numpy and scipy than pgtrial, so it has an environment of its own.
set -eu
cd "$(dirname "$0")/.."

place=.venv/otava
stamp=$place/pgtrial-setup
wanted=$(sha256sum gym/otava.lock)
[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || exit 0

echo "setup: installing Apache Otava into $place"
base=$(.venv/bin/python -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))')
"$base" -m venv --clear --without-pip "$place"
.venv/bin/python -m pip --python "$place/bin/python" install --quiet --no-input --disable-pip-version-check \
    --require-hashes --only-binary :all: -r gym/otava.lock
echo "$wanted" >"$stamp"
