# A node with Slurm, NVIDIA GPUs and InfiniBand or Ethernet; load here what `module avail` offers for
# a C++20 compiler, CMake, Open MPI, parallel HDF5, CUDA and NCCL.
# Sourced by the jobs, by jobs/submit.sh and by `make -f Makefile.hpc ... MACHINE=generic`.
gpus_per_node=8
options=(--gpus-per-node=8 --ntasks-per-node=8 --cpus-per-task=12)  # command line of sbatch, over the job's own lines

# Every task sees all GPUs of its node and takes the one of its node-local rank: NCCL then finds NVLink and the nearest
# NIC by itself. Cores: a block of its own for each task. pmix is what Open MPI speaks; MPICH and its kin: pmi2.
launch=(srun --mpi=pmix --gpu-bind=none --cpu-bind=cores --kill-on-bad-exit=1)
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}  # since Slurm 22.05 srun does not take it from sbatch
