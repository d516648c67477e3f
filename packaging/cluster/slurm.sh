#!/bin/sh
# The runs of a scenario as a job array of Slurm, here in 8 shards:
#
#   sbatch --wait slurm.sh scenario.toml --out shards
#   manyway merge shards --out results
#
# The directory must be the same on all nodes. Every option of `manyway run` may follow the file.
# For another number of shards, change both 8. `sbatch --array=3,5 slurm.sh …` with the same options
# repeats single shards.
#SBATCH --job-name=manyway
#SBATCH --array=1-8
#SBATCH --cpus-per-task=1
#SBATCH --output=%x-%A-%a.log
of=8
exec manyway run "$@" --shard "$SLURM_ARRAY_TASK_ID/$of" --threads "${SLURM_CPUS_PER_TASK:-1}"
