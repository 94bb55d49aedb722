#!/usr/bin/env bash
# submit.sh MACHINE JOB [sbatch options]    submits a job of this folder with the options of jobs/MACHINE/profile.sh:
# as many ranks as the job's own lines ask for, on nodes with as many GPUs as MACHINE has. Run it from the top folder.
set -euo pipefail
if (($# < 2)) || [[ ! -e jobs/$1/profile.sh || ! -e $2 ]]; then
  echo "usage: jobs/submit.sh MACHINE JOB [sbatch options]   from the top folder; machines: $(cd jobs && echo */)" >&2
  exit 2
fi
machine=$1 job=$2
line() { sed -n "s/^#SBATCH --$1=//p" "$job"; }
set +u # module functions read what is not set
source "jobs/$machine/profile.sh"
set -u
ranks=$(($(line nodes) * $(line ntasks-per-node)))
nodes=$(((ranks + gpus_per_node - 1) / gpus_per_node))
set -x
MACHINE=$machine exec sbatch --nodes="$nodes" "${options[@]}" "${@:3}" "$job"
