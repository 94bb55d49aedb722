#!/usr/bin/env bash
# bench.sh TRIREME DECK...   Runs each deck on one rank and prints its last step as the program logged it.
# Decks for GPUs are skipped on a machine without one.
set -euo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # containers are root; Open MPI wants to be told twice
trireme=${1:?usage: bench.sh TRIREME DECK...}
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

has_gpu() { command -v nvidia-smi > /dev/null && nvidia-smi -L > /dev/null 2>&1; }

failed=0
for deck in "$@"; do
  name=$(basename "$deck" .toml)
  if grep -q '^kind = "cuda"' "$deck" && ! has_gpu; then
    printf '%-24s skipped: no GPU\n' "$name"
  elif mpirun -n 1 --bind-to none "$trireme" train "$deck" run.output="$scratch/$name" > "$scratch/$name.log" 2>&1; then
    printf '%-24s %s\n' "$name" "$(grep '^step' "$scratch/$name/log.txt" | tail -n 1)"
  else
    printf '%-24s failed\n' "$name"
    sed '/^-----*$/,/^-----*$/d' "$scratch/$name.log" | tail -n 5  # without what mpirun says about it
    failed=1
  fi
done
exit $failed
