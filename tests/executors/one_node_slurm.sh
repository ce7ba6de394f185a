#!/usr/bin/env bash
# A Slurm of one node on this machine, for tests: munge, slurmctld and slurmd, without systemd and without cgroups.
#
#   sudo tests/executors/one_node_slurm.sh install     # Debian, Ubuntu: apt-get install slurm-wlm munge
#   tests/executors/one_node_slurm.sh start            # prints the line that makes sbatch find it
#   export SLURM_CONF=/tmp/one-node-slurm/slurm.conf
#   sbatch --wrap hostname
#   tests/executors/one_node_slurm.sh stop
#
# Everything lies in $ONE_NODE_SLURM (/tmp/one-node-slurm): nothing in /etc is read or written, keys included. Whoever
# starts it is its only user; root is not needed. There is no accounting (slurmdbd wants a database), so that `sacct`
# has nothing to say and `squeue` forgets a job $FORGET_SECONDS after its end: what the suite has to cope with at the
# plainest of sites. The node claims two GPUs that do not exist, so that jobs can ask for some.
set -euo pipefail

state=${ONE_NODE_SLURM:-/tmp/one-node-slurm}
forget=${FORGET_SECONDS:-300}
port=${ONE_NODE_SLURM_PORT:-26817}
# Daemons lie where an ordinary user's PATH does not go.
PATH=$PATH:/usr/sbin:/sbin

install() {
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends slurm-wlm munge
}

configure() {
    local user node cores shape memory
    user=$(id -un)
    node=$(hostname -s)
    cores=$(nproc)
    # "Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1": the node must not claim another shape than it has.
    shape=$(slurmd -C | grep -o 'CPUs=.*ThreadsPerCore=[0-9]*')
    memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
    mkdir -p "$state"/{spool,ctld,log}
    # munge refuses folders in which others could put another key.
    chmod 755 "$state"
    [ -s "$state/munge.key" ] || (umask 077 && head -c 128 /dev/urandom >"$state/munge.key")
    touch "$state"/gpu{0,1}
    cat >"$state/gres.conf" <<CONF
Name=gpu File=$state/gpu[0-1]
CONF
    cat >"$state/slurm.conf" <<CONF
ClusterName=one-node
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$state/munge.socket
CredType=cred/munge
StateSaveLocation=$state/ctld
SlurmdSpoolDir=$state/spool
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/slurmd.log
# No cgroups: in a container they cannot be written.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherParams=OverMemoryKill
JobAcctGatherFrequency=5
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
ReturnToService=2
MpiDefault=none
SwitchType=switch/none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5,sched_interval=5,sched_min_interval=0,requeue_delay=1
# A job of a higher tier sends the others back into the queue.
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
EnforcePartLimits=ALL
KillWait=20
MinJobAge=$forget
DefMemPerCPU=$((memory / cores))
NodeName=$node NodeAddr=127.0.0.1 $shape RealMemory=$memory Gres=gpu:2 State=UNKNOWN
PartitionName=batch Nodes=$node Default=YES MaxTime=1-00:00:00 PriorityTier=1
PartitionName=urgent Nodes=$node MaxTime=1:00:00 PriorityTier=10 PreemptMode=OFF
CONF
}

start() {
    configure
    export SLURM_CONF="$state/slurm.conf"
    running munged || munged --force --key-file="$state/munge.key" --socket="$state/munge.socket" \
        --pid-file="$state/munged.pid" --log-file="$state/log/munged.log" --seed-file="$state/munge.seed"
    running slurmctld || slurmctld
    running slurmd || slurmd
    for _ in $(seq 30); do
        if [ "$(sinfo --noheader --format=%T 2>/dev/null | sort -u)" = idle ]; then
            echo "export SLURM_CONF=$state/slurm.conf"
            return
        fi
        sleep 0.5
    done
    sinfo || true
    tail -n 20 "$state"/log/*.log >&2
    echo "the node did not become idle" >&2
    return 1
}

running() {
    [ -s "$state/$1.pid" ] && kill -0 "$(cat "$state/$1.pid" 2>/dev/null)" 2>/dev/null
}

stop() {
    export SLURM_CONF="$state/slurm.conf"
    if running slurmctld; then
        scancel --quiet --user="$(id -un)" || true
        # A step whose daemons are gone waits for them for ever.
        for _ in $(seq 60); do
            [ -z "$(squeue --noheader 2>/dev/null)" ] && [ -z "$(pgrep -f "^slurmstepd: .*" || true)" ] && break
            sleep 0.5
        done
    fi
    for daemon in slurmd slurmctld munged; do
        if running "$daemon"; then
            kill "$(cat "$state/$daemon.pid")"
            for _ in $(seq 40); do
                running "$daemon" || break
                sleep 0.25
            done
        fi
    done
    rm -rf "$state"
}

case "${1:-}" in
install | start | stop) "$1" ;;
*)
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
