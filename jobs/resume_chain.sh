#!/usr/bin/env bash
# resume_chain.sh N MACHINE JOB [sbatch options]    for sites that do not requeue: submits N jobs, each waiting for the one
# before. A link that stopped early (75) or died lets the next one go on; once the run is finished the rest is cancelled.
set -euo pipefail
if (($# < 3)) || ! [[ $1 =~ ^[0-9]+$ ]]; then
  echo "usage: jobs/resume_chain.sh N MACHINE JOB [sbatch options]" >&2
  exit 2
fi
before=
for ((i = 1; i <= $1; ++i)); do
  after=(${before:+"--dependency=afternotok:$before" --kill-on-invalid-dep=yes})
  before=$("$(dirname "$0")/submit.sh" "$2" "$3" --parsable --no-requeue "${after[@]}" "${@:4}")
  before=${before%%;*}
  echo "link $i of $1: job $before"
done
