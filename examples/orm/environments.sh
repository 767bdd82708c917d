#!/bin/sh
# What experiment.toml compares: a virtual environment for each version of SQLAlchemy, with the same driver, and a program
# in DIRECTORY/bin that is the Python of each.
#
#     sh environments.sh DIRECTORY
#
# PYTHON=… is the Python to make them with. As root, neither it nor DIRECTORY may lie below /root: the load runs as
# another account.
set -eu
mkdir -p "${1:?which directory?}/bin"
directory=$(cd "$1" && pwd)
for version in 1.4.54 2.0.58; do
    program=sqlalchemy-${version%.*}
    "${PYTHON:-python3}" -m venv "$directory/$program"
    "$directory/$program/bin/pip" install --quiet "sqlalchemy==$version" psycopg2-binary==2.9.13
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$directory/$program/bin/python" >"$directory/bin/$program"
    chmod +x "$directory/bin/$program"
done
echo "PATH=\"$directory/bin:\$PATH\" pgtrial run --allow-code experiment.toml"
