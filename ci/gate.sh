#!/bin/sh
# Add a migration to an experiment as the SQL of one of its arms, and let the verdict decide.
#
# usage: ci/gate.sh EXPERIMENT MIGRATION [ARM] [OPTION...]
#
# EXPERIMENT is a file with the two arms, ARM the one that gets the SQL of the file MIGRATION (after, if left out);
# OPTIONs are those of "pgtrial run"; check and plan get those that they take. Beside EXPERIMENT it leaves pgtrial.xml
# (JUnit), pgtrial.md (a comment) and results/. PGTRIAL_HISTORY names the file with the results of earlier runs,
# PGTRIAL_GATE this gate, by which its comment and its history are found again; else that is EXPERIMENT without ".toml".
# PGTRIAL_ATTEMPTS names the file in which a pipeline keeps this gate's attempts at its claim, from machine to machine.
#
# Exit status: 0 supported, 3 refuted, 4 inconclusive, 5 invalid; any other: the experiment failed.
set -eu

[ $# -ge 2 ] || { sed -n 's/^# \{0,1\}//; /^usage/p' "$0" >&2; exit 2; }
experiment=$1 migration=$2
shift 2
arm=after
case ${1:-} in
"" | -*) ;;
*) arm=$1 && shift ;;
esac

folder=$(dirname "$experiment")
# What an earlier gate said here is not what this one says, should it come to nothing.
rm -f "$folder/pgtrial.xml" "$folder/pgtrial.md"

case $arm in
*[!A-Za-z0-9_-]*) echo "error: \"$arm\" is no name of an arm" >&2 && exit 2 ;;
esac
# The text of the migration stands between three quotation marks, as it is.
if grep -q "'''" "$migration"; then
    echo "error: \"$migration\" has three quotation marks in a row, which would end the text in the experiment file" >&2
    exit 2
fi

whole=${experiment%.toml}-with-migration.toml
{
    cat "$experiment"
    printf "\n[arms.%s.sql]\napply = '''\n" "$arm"
    # Some editors begin a text with a mark of its byte order, which is no SQL.
    LC_ALL=C sed "1s/^$(printf '\357\273\277')//" "$migration"
    printf "'''\n"
} >"$whole"

# Call a command with those of the options that it takes as well, each of which has a value.
# Arguments: the command's words, the names of options, and the options.
also() {
    words=$1 names=$2 left=$(($# - 2))
    shift 2
    while [ "$left" -gt 0 ]; do
        option=$1 left=$((left - 1))
        shift
        case $names in
        *" ${option%%=*} "*) set -- "$@" "$option" ;;
        *) continue ;;
        esac
        if [ "$option" = "${option%%=*}" ] && [ "$left" -gt 0 ]; then
            set -- "$@" "$1"
            shift
            left=$((left - 1))
        fi
    done
    $words "$whole" "$@"
}

# Attempts are counted in the state directory, and a machine that is new each time has an empty one. What it lacks of the
# pipeline's list is added; the journal of what is to be put back is the machine's own, and goes nowhere.
attempts=${PGTRIAL_ATTEMPTS:-}
if [ -n "$attempts" ]; then
    state=${PGTRIAL_STATE_DIRECTORY:-}
    if [ -z "$state" ] && [ "$(id -u)" = 0 ]; then
        state=/var/lib/pgtrial
    elif [ -z "$state" ]; then
        case ${XDG_STATE_HOME:-} in
        /*) state=$XDG_STATE_HOME/pgtrial ;;
        *) state=$HOME/.local/state/pgtrial ;;
        esac
    fi
    list=$state/attempts.jsonl
    if (umask 077 && mkdir -p "$state" && : >>"$list" && : >>"$attempts") 2>/dev/null; then
        missing=$(grep -vxFf "$list" "$attempts") || :
        [ -z "$missing" ] || printf '\n%s\n' "$missing" >>"$list"
        known=$(wc -l <"$list")
    else
        echo "warning: earlier attempts are not counted: \"$list\" or \"$attempts\" cannot be written" >&2
        attempts=""
    fi
fi

also "pgtrial check --no-host" " --allow-files " "$@"
also "pgtrial plan" " --allow-files --fleet --revision " "$@"

name=${PGTRIAL_GATE:-${experiment%.toml}}
gate=$(printf %s "$name" | LC_ALL=C tr -c 'A-Za-z0-9_./-' - | cut -c1-200)
# Of two names that came to the same, the second would replace what the first has said.
if [ "$gate" != "$name" ]; then
    sum=$(printf %s "$name" | cksum)
    gate=$(printf %s "$gate" | cut -c1-189)-${sum%% *}
fi
# Everybody may write where some runners check out, and pgtrial keeps no result folder where others may replace it.
own=$(mktemp -d)
trap : HUP INT TERM # pgtrial ends in order, and what it has is kept
status=0
pgtrial run "$whole" --quiet --assert --results "$own" --junit "$folder/pgtrial.xml" \
    --summary-markdown "$folder/pgtrial.md" --gate "$gate" --history "${PGTRIAL_HISTORY:-$folder/pgtrial-history.jsonl}" "$@" ||
    status=$?
[ -z "$attempts" ] || tail -n "+$((known + 1))" "$list" >>"$attempts" || : # tail says why; the verdict stays
mkdir -p "$folder/results"
cp -R "$own/." "$folder/results"
for report in "$own"/*/report.html; do
    [ ! -e "$report" ] || echo "kept: $folder/results${report#"$own"}"
done
rm -rf "$own"
exit "$status"
