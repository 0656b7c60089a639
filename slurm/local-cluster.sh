#!/usr/bin/env bash
# A real one-node SLURM with accounting on this machine, for tests: slurm/local-cluster.sh up|down|status
# Debian and its packages, as root; state and logs are in $STATE. The database has a socket and no port; SLURM's daemons
# listen on ports 6817-6819 of every address, as they do on clusters, and answer only who has this machine's munge key.
# `up` installs what is missing, starts what is not running and changes nothing that is; `down` stops what `up` started.
# NO_ACCOUNTING=1 starts one that keeps no accounts; MAX_ARRAY sets MaxArraySize.
set -euo pipefail

STATE=${COMPCLIP_SLURM_STATE:-/var/lib/compclip-slurm}
HOST=$(hostname -s)
SOCKET=$STATE/mysql.sock
PACKAGES=(slurm-wlm slurmdbd munge mariadb-server)
export SLURM_CONF=/etc/slurm/slurm.conf

fail() { echo "error: $*" >&2; exit 2; }
alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }
running() { alive "$STATE/$1.pid"; }

wait_for() {  # what it is, then a command that succeeds once it is there
  local name=$1; shift
  for _ in $(seq 150); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done
  fail "$name did not start; see $STATE/*.log"
}

install_packages() {
  local missing=() name
  for name in "${PACKAGES[@]}"; do dpkg -s "$name" >/dev/null 2>&1 || missing+=("$name"); done
  [ ${#missing[@]} = 0 ] && return
  echo "installing ${missing[*]}"
  # packages must not start their daemons: this script does, with its own configuration
  local policy=/usr/sbin/policy-rc.d
  [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy; chmod +x $policy; trap "rm -f $policy" EXIT; }
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
    >"$STATE/apt.log" 2>&1 || fail "apt-get could not install ${missing[*]}; see $STATE/apt.log"
}

configure() {
  local memory cpus
  cpus=$(getconf _NPROCESSORS_ONLN); memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
  mkdir -p /etc/slurm
  if [ -e $SLURM_CONF ] && ! grep -q '^ClusterName=compclip$' $SLURM_CONF; then
    fail "$SLURM_CONF: is another cluster's; this script only makes one where there is none"
  fi
  local accounting="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$HOST"
  [ "${NO_ACCOUNTING:-}" ] && accounting="AccountingStorageType=accounting_storage/none"
  cat >$SLURM_CONF <<CONF
ClusterName=compclip
SlurmctldHost=$HOST
AuthType=auth/munge
AuthInfo=cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$STATE/ctld
SlurmdSpoolDir=$STATE/slurmd
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdPidFile=$STATE/slurmd.pid
SlurmctldLogFile=$STATE/slurmctld.log
SlurmdLogFile=$STATE/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill,NoShared
$accounting
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MaxArraySize=${MAX_ARRAY:-1001}
JobRequeue=1
KillWait=10
MinJobAge=300
InactiveLimit=0
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MpiDefault=none
NodeName=$HOST NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$memory State=UNKNOWN
PartitionName=main Nodes=$HOST Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=urgent Nodes=$HOST MaxTime=INFINITE PriorityTier=10 State=UP
CONF
  [ -e /etc/slurm/slurmdbd.conf ] && return
  ( umask 077; cat >/etc/slurm/slurmdbd.conf <<CONF
AuthType=auth/munge
DbdHost=$HOST
SlurmUser=root
PidFile=$STATE/slurmdbd.pid
LogFile=$STATE/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
StorageLoc=slurm_acct_db
CONF
  )
}

start_munge() {
  munge -n >/dev/null 2>&1 && return
  mkdir -p /etc/munge /run/munge /var/lib/munge /var/log/munge
  [ -e /etc/munge/munge.key ] || mungekey --create
  chown -R munge: /etc/munge /run/munge /var/lib/munge /var/log/munge
  chmod 755 /run/munge
  runuser -u munge -- munged --pid-file=/run/munge/munged.pid
  wait_for munged munge -n
  cp /run/munge/munged.pid "$STATE/munged.pid"
}

start_database() {
  running mariadbd && return
  mkdir -p "$STATE/mysql"; chown mysql: "$STATE/mysql"; touch "$STATE/mariadbd.log"; chown mysql: "$STATE/mariadbd.log"
  [ -d "$STATE/mysql/mysql" ] || mariadb-install-db --user=mysql --datadir="$STATE/mysql" --skip-test-db >/dev/null
  rm -f "$SOCKET"; chmod 777 "$STATE"
  setsid mariadbd --no-defaults --user=mysql --datadir="$STATE/mysql" --skip-networking --socket="$SOCKET" \
    --pid-file="$STATE/mariadbd.pid" --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 \
    >>"$STATE/mariadbd.log" 2>&1 </dev/null &
  wait_for MariaDB mariadb-admin --socket="$SOCKET" ping
  chmod 755 "$STATE"
  local password; password=$(sed -n 's/^StoragePass=//p' /etc/slurm/slurmdbd.conf)
  mariadb --socket="$SOCKET" <<SQL
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE OR REPLACE USER slurm@localhost IDENTIFIED BY '$password';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
SQL
}

start_accounting() {
  [ "${NO_ACCOUNTING:-}" ] && return
  start_database
  running slurmdbd || MYSQL_UNIX_PORT=$SOCKET slurmdbd
  wait_for slurmdbd sacctmgr -n list cluster
  sacctmgr -n list cluster | grep -qw compclip || sacctmgr -i add cluster compclip >/dev/null
}

up() {
  [ "$(id -u)" = 0 ] || fail "must be root"
  command -v apt-get >/dev/null || fail "no apt-get: this script is for Debian"
  mkdir -p "$STATE/ctld" "$STATE/slurmd"
  install_packages
  getent hosts "$HOST" >/dev/null || echo "127.0.0.1 $HOST" >>/etc/hosts
  running slurmctld || configure
  start_munge
  start_accounting
  running slurmctld || slurmctld
  wait_for slurmctld scontrol ping
  running slurmd || slurmd
  wait_for "the node" node_is_up
  scontrol show node "$HOST" | grep -q 'State=.*\(DOWN\|DRAIN\)' && scontrol update node="$HOST" state=resume
  status
}

node_is_up() { sinfo -h -N -o %T | grep -Eq '^(idle|mixed|allocated)$'; }

down() {
  local name pid
  if running slurmctld; then scancel --full --state=PENDING,RUNNING --user=root 2>/dev/null || true; fi
  for name in slurmd slurmctld slurmdbd mariadbd munged; do
    running "$name" || continue
    pid=$(cat "$STATE/$name.pid"); kill "$pid"
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    rm -f "$STATE/$name.pid"
  done
  echo "down"
}

status() {
  local name
  for name in munged mariadbd slurmdbd slurmctld slurmd; do
    if running "$name"; then echo "$name: process $(cat "$STATE/$name.pid")"; else echo "$name: not running"; fi
  done
  running slurmctld && running slurmd && sinfo
}

case "${1:-}" in
  up) up ;;
  down) down ;;
  status) status ;;
  *) fail "usage: slurm/local-cluster.sh up|down|status" ;;
esac
