#!/bin/sh
# Put a summary into the pull request, in place of the one of an earlier run. Needs GitHub's command gh and GH_TOKEN.
#
# usage: ci/comment.sh SUMMARY REPOSITORY NUMBER
#
# SUMMARY is the file of "pgtrial run --summary-markdown --history", whose first line says which comment is meant. Only
# comments of the token's own user are replaced: anybody may write one that begins like ours, and change it afterwards.
set -eu

[ $# -eq 3 ] || { sed -n 's/^# \{0,1\}//; /^usage/p' "$0" >&2; exit 2; }
summary=$1 repository=$2 number=$3
marker=$(sed -n '1s/^\(<!-- pgtrial [A-Za-z0-9_./-]* -->\)$/\1/p' "$summary")
[ -n "$marker" ] || { echo "error: \"$summary\" does not begin with the mark of pgtrial" >&2; exit 1; }

# A workflow's own token may not ask who it is.
PGTRIAL_LOGIN=$(gh api user --jq .login 2>/dev/null) || PGTRIAL_LOGIN='github-actions[bot]'
export PGTRIAL_LOGIN
# The first line of each of our comments, with its number: of a gate there is one at most.
comments=$(gh api --paginate "repos/$repository/issues/$number/comments" \
    --jq '.[] | select(.user.login == env.PGTRIAL_LOGIN) | "\(.id) \(.body | split("\n")[0] | rtrimstr("\r"))"')
comment=$(printf '%s\n' "$comments" | awk -v marker="$marker" 'substr($0, length($1) + 2) == marker { print $1; exit }')
if [ -n "$comment" ]; then
    gh api --method PATCH "repos/$repository/issues/comments/$comment" --field "body=@$summary" >/dev/null
else
    gh api --method POST "repos/$repository/issues/$number/comments" --field "body=@$summary" >/dev/null
fi
