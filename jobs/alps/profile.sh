# Alps, CSCS (docs.cscs.ch): nodes of four GH200 (72 Grace cores and one H100 of 96 GB each), four Slingshot 11 NICs.
# Software comes as a uenv image: `uenv image find prgenv-gnu` lists them; give one that has cuda, nccl and
# aws-ofi-nccl: jobs/submit.sh alps JOB --account=PROJECT --uenv=prgenv-gnu/24.11:v1 --view=default
gpus_per_node=4
options=(--gpus-per-node=4 --ntasks-per-node=4 --cpus-per-task=72)

launch=(srun --gpu-bind=none --cpu-bind=cores --kill-on-bad-exit=1)
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
# Tensors travel through NCCL over libfabric: fail where the plugin is missing instead of falling back to TCP.
export MPICH_GPU_SUPPORT_ENABLED=0
export NCCL_NET="AWS Libfabric" NCCL_NET_GDR_LEVEL=PHB NCCL_CROSS_NIC=1 NCCL_PROTO=^LL128
export FI_CXI_DISABLE_HOST_REGISTER=1 FI_MR_CACHE_MONITOR=userfaultfd FI_CXI_DEFAULT_CQ_SIZE=131072
export FI_CXI_DEFAULT_TX_SIZE=32768 FI_CXI_RX_MATCH_MODE=software
