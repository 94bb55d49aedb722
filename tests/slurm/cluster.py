"""A Slurm of one node for the tests: munged, slurmctld and slurmd of this machine, with configuration, sockets, ports and
state in a folder of their own. Nothing is installed and nothing outside the folder is touched. Needs root."""
import os
import re
import shutil
import socket
import subprocess
import time

DAEMONS = ("munged", "slurmctld", "slurmd")
CPUS = 8  # claimed, whatever the machine has

CONF = """
ClusterName=test
SlurmctldHost={host}
SlurmUser=root
SlurmctldPort={port}
SlurmdPort={port2}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/ctld
SlurmdSpoolDir={folder}/d
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
ReturnToService=2
MpiDefault=none
KillWait=20
MinJobAge=3600
JobRequeue=1
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SlurmdParameters=config_overrides
NodeName={host} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
"""


def missing():
    """Why no Slurm can be started here; empty: nothing is missing."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    absent = [name for name in (*DAEMONS, "sbatch", "srun") if not shutil.which(name, path=path)]
    if absent:
        return f"not installed: {' '.join(absent)} (Debian: slurm-wlm slurm-wlm-basic-plugins munge)"
    return "" if os.geteuid() == 0 else "starting slurmd needs root"


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL")


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf", "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        self.env.update(OMPI_MCA_mpi_yield_when_idle="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        for name in list(self.env):
            if name.startswith("SLURM_") and name != "SLURM_CONF":
                del self.env[name]

    def __enter__(self):
        os.chmod(self.folder, 0o755)
        for name in ("ctld", "d"):
            os.makedirs(f"{self.folder}/{name}", exist_ok=True)
        host = socket.gethostname().split(".")[0]
        with open(f"{self.folder}/slurm.conf", "w") as file:
            file.write(CONF.format(host=host, folder=self.folder, port=free_port(), port2=free_port(), cpus=CPUS))
        with open(f"{self.folder}/munge.key", "wb") as file:
            file.write(os.urandom(128))
        os.chmod(f"{self.folder}/munge.key", 0o400)
        here = self.folder
        self.start(["munged", "--force", f"--key-file={here}/munge.key", f"--socket={here}/munge.socket",
                    f"--pid-file={here}/munged.pid", f"--log-file={here}/munged.log", f"--seed-file={here}/munge.seed"])
        self.start(["slurmctld", "-f", f"{here}/slurm.conf"])
        self.start(["slurmd", "-f", f"{here}/slurm.conf"])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if re.search("idle|mixed|alloc", self.run("sinfo", "-h", "-o", "%T").stdout):
                return self
            time.sleep(0.2)
        raise SystemExit("the node did not become idle:\n" + self.logs())

    def start(self, command):
        done = subprocess.run(command, env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{command[0]} did not start: {done.stdout}{done.stderr}\n{self.logs()}")

    def __exit__(self, *_):
        self.run("scancel", "--signal=KILL", "--full", "--user=root")
        self.run("scancel", "--user=root")
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and self.run("squeue", "--noheader").stdout.strip():
            time.sleep(0.3)
        for name in ("slurmd", "slurmctld", "munged"):  # the daemons of this folder, by their pid files
            try:
                with open(f"{self.folder}/{name}.pid") as file:
                    os.kill(int(file.read()), 15)
            except (OSError, ValueError):
                pass
        time.sleep(0.5)

    def logs(self):
        text = ""
        for name in ("munged.log", "slurmctld.log", "slurmd.log"):
            try:
                with open(f"{self.folder}/{name}") as file:
                    text += f"--- {name}\n" + "".join(file.readlines()[-15:])
            except FileNotFoundError:
                pass
        return text

    def run(self, *command, cwd=None, env=None):
        return subprocess.run([str(c) for c in command], env={**self.env, **(env or {})}, cwd=cwd, capture_output=True,
                              text=True, timeout=60)

    def submit(self, *arguments, cwd, env=None):
        done = self.run("sbatch", "--parsable", *arguments, cwd=cwd, env=env)
        if done.returncode != 0:
            raise SystemExit(f"sbatch {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout.strip().split(";")[0]

    def job(self, number):
        """The fields of `scontrol show job`."""
        text = self.run("scontrol", "--oneliner", "show", "job", number).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait(self, number, seconds=300):
        """Waits until the job is over; its fields."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            fields = self.job(number)
            if fields.get("JobState") in ENDED:
                return fields
            time.sleep(0.3)
        self.run("scancel", number)
        return {"JobState": f"still {fields.get('JobState')} after {seconds} s", "ExitCode": "-"}
