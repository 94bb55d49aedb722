# Perlmutter, NERSC (docs.nersc.gov): nodes of one 64-core EPYC 7763 and four A100 (40 GB; 80 GB with
# --constraint=gpu\&hbm80g), four Slingshot 11 NICs. Give your project: jobs/submit.sh perlmutter JOB --account=mXXXX_g
module load PrgEnv-gnu cudatoolkit craype-accel-nvidia80 cray-hdf5-parallel cmake nccl
gpus_per_node=4
options=(--constraint=gpu --qos=regular --gpus-per-node=4 --ntasks-per-node=4 --cpus-per-task=32)

# Cray MPICH starts through cray_shasta, Slurm's default there. All four GPUs are visible to each task.
launch=(srun --gpu-bind=none --cpu-bind=cores --kill-on-bad-exit=1)
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
export CC=cc CXX=CC
# Tensors travel through NCCL and its libfabric plugin (in the module nccl), not through MPI.
export MPICH_GPU_SUPPORT_ENABLED=0 MPICH_OFI_NIC_POLICY=NUMA
export NCCL_NET_GDR_LEVEL=PHB NCCL_CROSS_NIC=1
export FI_CXI_DISABLE_HOST_REGISTER=1 FI_MR_CACHE_MONITOR=userfaultfd FI_CXI_DEFAULT_CQ_SIZE=131072
