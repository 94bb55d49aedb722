# MareNostrum 5 ACC, BSC (www.bsc.es/supportkc): nodes of two 40-core Xeon 8460Y+ and four H100 of 64 GB, four NDR200
# InfiniBand ports. Give your account and queue: jobs/submit.sh marenostrum5 JOB --account=bscXX --qos=acc_bscXX (EuroHPC
# projects: --qos=acc_ehpc; tests: --qos=acc_debug). `module avail` shows the versions; CPUs come 20 per GPU.
module purge
module load gcc openmpi hdf5 cuda nccl cmake
gpus_per_node=4
options=(--gres=gpu:4 --ntasks-per-node=4 --cpus-per-task=20)

launch=(srun --mpi=pmix --gpu-bind=none --cpu-bind=cores --kill-on-bad-exit=1)
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}  # also BSC's own advice
export NCCL_CROSS_NIC=1
