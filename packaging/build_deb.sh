#!/bin/sh
# Build dist/pgtrial_VERSION_ARCHITECTURE.deb: pgtrial with its pinned packages in /usr/lib/pgtrial, for the machine's own
# python3. Run by "make deb"; needs dpkg-deb, and pip's network or package folder.
#
# SOURCE_DATE_EPOCH gives the date of all files; without it, it is that of the last entry in Git.
set -eu
cd "$(dirname "$0")/.."

python=/usr/bin/python3
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH PIP_ROOT_USER_ACTION=ignore
umask 022

version=$(.venv/bin/python -c 'import pgtrial; print(pgtrial.__version__)')
minor=$($python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
home=$root/usr/lib/pgtrial
site=$home/lib/python$minor/site-packages

mkdir -p "$site" "$home/bin" "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/man/man1" "$root/usr/share/pgtrial" \
    "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
    "$root/usr/share/fish/vendor_completions.d" "$root/usr/share/doc/pgtrial" dist
rm -f dist/*.whl
.venv/bin/python -m hatchling build --target wheel --directory dist >/dev/null
# An environment that finds its packages by its own place: what pgtrial starts is started with its python.
ln -s "$(readlink -f $python)" "$home/bin/python"
printf 'home = /usr/bin\ninclude-system-site-packages = false\nversion = %s\n' "$minor" >"$home/pyvenv.cfg"
.venv/bin/python -m pip --python "$python" install --quiet --no-input --disable-pip-version-check --target "$site" \
    --no-compile --only-binary :all: --require-hashes -r requirements/run.lock
rm -rf "$site/bin"  # programs of the packages, of which pgtrial starts none
# By its name: of a file, pip would record where it lay, and the package would differ with the directory it is built in.
.venv/bin/python -m pip --python "$python" install --quiet --no-input --disable-pip-version-check --target "$site" \
    --no-compile --no-deps --no-index --find-links dist "pgtrial==$version"
rm -rf "$site/bin"

cat >"$root/usr/bin/pgtrial" <<'EOF'
#!/usr/lib/pgtrial/bin/python
import sys

from pgtrial.cli.main import main

sys.exit(main())
EOF
chmod 755 "$root/usr/bin/pgtrial"
cp -r ci "$root/usr/share/pgtrial/"
cp -r examples "$root/usr/share/doc/pgtrial/"
cp LICENSE "$root/usr/share/doc/pgtrial/copyright"
.venv/bin/python tools/man_page.py | gzip -9n >"$root/usr/share/man/man1/pgtrial.1.gz"
.venv/bin/pgtrial completion bash >"$root/usr/share/bash-completion/completions/pgtrial"
.venv/bin/pgtrial completion zsh >"$root/usr/share/zsh/vendor-completions/_pgtrial"
.venv/bin/pgtrial completion fish >"$root/usr/share/fish/vendor_completions.d/pgtrial.fish"

cat >"$root/DEBIAN/control" <<EOF
Package: pgtrial
Version: $version
Architecture: $architecture
Maintainer: The pgtrial contributors <pgtrial@localhost>
Section: database
Priority: optional
Depends: python$minor, util-linux, libc6
Recommends: postgresql, openssh-client
Suggests: fio
Installed-Size: $(du -sk "$root/usr" | cut -f 1)
Description: validate claims about PostgreSQL performance by experiment
 Prepares data, sets what is compared, drives the load, samples PostgreSQL and
 Linux, repeats in a drawn order, decides with intervals, explains the cause, and
 puts everything back.
EOF
find "$root" -name __pycache__ -type d -prune -exec rm -rf {} +
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zzstd -z3 --build "$root" "dist/pgtrial_${version}_$architecture.deb" >/dev/null
echo "dist/pgtrial_${version}_$architecture.deb"
