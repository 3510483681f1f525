#!/usr/bin/env bash
# Runs a command as one worker of a SLURM step or of a Kubernetes Indexed Job, with its TF_CONFIG.
#
#     worker.sh python run_pretraining.py --distribution_strategy=multi_worker_mirrored ...
#
# PORT is the port of all workers, 2222 by default. A Kubernetes pod also needs WORKERS, the number of pods,
# JOB_NAME, and SERVICE, the headless service that gives the pods their names.
set -euo pipefail

port=${PORT:-2222}
if [[ -n ${SLURM_PROCID:-} ]]; then
    index=$SLURM_PROCID
    addresses=$(scontrol show hostnames "$SLURM_STEP_NODELIST" | sed "s/.*/\"&:$port\"/" | paste -sd,)
elif [[ -n ${JOB_COMPLETION_INDEX:-} ]]; then
    index=$JOB_COMPLETION_INDEX
    addresses=$(seq 0 $((WORKERS - 1)) | sed "s/.*/\"$JOB_NAME-&.$SERVICE:$port\"/" | paste -sd,)
else
    echo "worker.sh: expected SLURM_PROCID, which srun sets, or JOB_COMPLETION_INDEX, which an Indexed Job sets" >&2
    exit 2
fi
export TF_CONFIG="{\"cluster\": {\"worker\": [$addresses]}, \"task\": {\"type\": \"worker\", \"index\": $index}}"
exec "$@"
