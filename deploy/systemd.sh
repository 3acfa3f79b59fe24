#!/usr/bin/env bash
# systemd.sh   boots a new Debian with systemd and follows the section "Systemd" of docs/deployment.md there, command by command. Then it
# stops, restarts and kills the units amid rollouts, and reboots. As root; needs debootstrap and systemd-container.
set -euo pipefail
cd "$(dirname "$0")/.."

# The unit of serve can keep no store in a folder of root, so there is a bucket.
s3=bin/tools/versitygw-v1.8.0
[ -x $s3 ] || { GOBIN=$PWD/$s3.build go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 && mv $s3.build/versitygw $s3 && rmdir $s3.build; }

tmp=$(mktemp -d)
trap 'rm -rf --one-file-system "$tmp"; find /sys/fs/cgroup -depth -type d -path "*/$(basename "$tmp")*" -exec rmdir {} +' EXIT
deploy/debian.sh bin/roots/systemd "systemd systemd-sysv dbus bubblewrap ripgrep python3 ca-certificates npm" "$tmp/root"
root=$tmp/root
mkdir -p "$root"/root/{bin,docs} "$root/srv/s3/rollouts" "$root/srv/sidecar"
cp -r --parents bin/rolloutd bin/sandboxd deploy/systemd docs/deployment.md examples/binary_search.yaml "$root/root/"
cp bin/rolloutd-dev "$root/opt/"
cp "$s3" "$root/opt/versitygw"

# The page's commands, with an editor that writes what they want.
awk '/^### /{on = /Systemd/} on && /^```$/{exit} on && code; on && /^```sh/{code = 1}' docs/deployment.md >"$root/root/page.sh"
key=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
cat >"$root/usr/local/bin/editor" <<EDITOR
#!/bin/sh
cat >"\$1" <<YAML
temporal: {address: "127.0.0.1:7233"}
store: {url: "s3://rollouts?region=us-east-1&use_path_style=true&endpoint=http://127.0.0.1:7480"}
YAML
cat >"\$2" <<ENV
ROLLOUTD_ENCRYPTION_KEY=$key
ROLLOUTD_TOKENS=secret-token-of-a-client
AWS_ACCESS_KEY_ID=rolloutd
AWS_SECRET_ACCESS_KEY=secret-of-the-bucket
ENV
EDITOR
chmod +x "$root/usr/local/bin/editor"

# A task that takes twenty seconds. Its verifier sees whether the command ran all the time, and once.
cat >"$root/root/ticks.yaml" <<'TASK'
id: ticks
instruction: Write the time into ticks.txt every second, twenty times.
verify:
  - test "$(wc -l <ticks.txt)" -eq 20
  - awk 'NR > 1 && $1 - last > 5 {exit 1} {last = $1}' ticks.txt
TASK
cat - internal/scripted/demo.yaml >"$root/root/model.yaml" <<'MODEL'
- name: ticks
  match: ticks.txt
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "for i in $(seq 20); do date +%s >>ticks.txt; sleep 1; done"}}]
    - text: ticks.txt has twenty lines.
MODEL

# What runs in the machine at each boot, until it turns the machine off.
cat >"$root/root/suite.sh" <<'SUITE'
set -euo pipefail
cd /root
trap '[ $? = 0 ] || journalctl --no-pager -b -u "rolloutd-*" | tail -n 50' EXIT
say() { echo; echo "== $*"; }

begin() { rolloutd run "$1" --agent react --endpoint scripted --detach; }
ends() { # ID TASK ATTEMPTS: the rollout ends with the reward 1 after so many attempts
	rolloutd run "$2" --rollout-id "$1" --agent react --endpoint scripted
	rolloutd show "$1" --json 2>/dev/null | python3 -c '
import json, sys
rollout = json.load(sys.stdin)
found = rollout["reward"], len(rollout["attempts"])
sys.exit(None if found == (1, int(sys.argv[1])) else f"reward and attempts: {found}")' "$3"
}
up() {
	for port in 9464 9465 9466; do
		python3 -c 'import sys, time, urllib.request
for _ in range(60):
    try: sys.exit(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/healthz").status != 200)
    except OSError: time.sleep(1)
sys.exit(f"no role at {sys.argv[1]}")' $port
	done
	systemctl is-active rolloutd-{gateway,worker,serve}
}

if [ ! -e rebooted ]; then
	say "the page's commands"
	cat page.sh
	bash -eu page.sh
else
	say "after the reboot, with $(($(date +%s) - $(cat rebooted))) s of shutdown and start"
fi
ROLLOUTD_TOKEN=$(. /etc/rolloutd/env; echo "$ROLLOUTD_TOKENS")
export ROLLOUTD_TOKEN
up

if [ ! -e rebooted ]; then
	say "a rollout"
	ends "$(begin examples/binary_search.yaml)" examples/binary_search.yaml 1

	say "systemctl fails for a role that cannot start"
	cp /etc/rolloutd/rolloutd.yaml good.yaml
	echo "nonsense: true" >>/etc/rolloutd/rolloutd.yaml
	if systemctl restart rolloutd-serve; then exit 1; fi
	cp good.yaml /etc/rolloutd/rolloutd.yaml
	systemctl restart rolloutd-serve
	up

	say "the worker is stopped amid a rollout, and started"
	id=$(begin ticks.yaml)
	sleep 3
	systemctl stop rolloutd-worker
	sleep 6
	systemctl start rolloutd-worker
	ends "$id" ticks.yaml 1

	say "each unit is restarted, then killed"
	id=$(begin ticks.yaml)
	for role in gateway worker serve; do
		sleep 1
		systemctl restart rolloutd-$role
		up
		systemctl kill -s KILL rolloutd-$role
		sleep 3
		up
	done
	ends "$id" ticks.yaml 1
	systemctl show -p Id -p NRestarts rolloutd-{gateway,worker,serve}

	say "a reboot amid a rollout, with the worker stopped"
	begin ticks.yaml | tee id
	sleep 3
	systemctl stop rolloutd-worker
	date +%s >rebooted
	systemctl reboot
	exit
fi

# systemd would wait 90 seconds for a process that ignores its signal.
[ $(($(date +%s) - $(cat rebooted))) -lt 60 ]
ends "$(cat id)" ticks.yaml 2

say "what the units may do, and what the journal has"
systemd-analyze security --no-pager | grep rolloutd
systemd-analyze security --no-pager --threshold=25 rolloutd-serve >/dev/null
[ "$(journalctl -u 'rolloutd-*' | grep -c ready)" -ge 9 ]
for secret in $(sed -n 's/^\(ROLLOUTD_.*\|AWS_SECRET.*\)=//p' /etc/rolloutd/env); do
	if journalctl | grep -F "$secret"; then exit 1; fi
done
touch passed
systemctl poweroff
SUITE

unit() { # NAME TARGET < its parts, without the last
	cat - <(printf '[Install]\nWantedBy=%s\n' "$2") >"$root/etc/systemd/system/$1.service"
	mkdir -p "$root/etc/systemd/system/$2.wants"
	ln -s "../$1.service" "$root/etc/systemd/system/$2.wants/"
}
unit temporal multi-user.target <<'UNIT'
[Service]
ExecStart=/opt/rolloutd-dev temporal --data /var/lib/temporal --no-ui
UNIT
unit bucket multi-user.target <<'UNIT'
[Service]
Environment=ROOT_ACCESS_KEY=rolloutd ROOT_SECRET_KEY=secret-of-the-bucket
ExecStart=/opt/versitygw --quiet --port 127.0.0.1:7480 posix --sidecar /srv/sidecar /srv/s3
UNIT
unit model multi-user.target <<'UNIT'
[Service]
ExecStart=/root/bin/rolloutd model --script /root/model.yaml
UNIT
unit suite multi-user.target <<'UNIT'
[Unit]
After=temporal.service bucket.service model.service
FailureAction=poweroff
[Service]
Environment=HOME=/root
StandardOutput=append:/root/log
StandardError=inherit
ExecStart=/bin/bash /root/suite.sh
UNIT

# A container does not have what a machine has: controllers of cgroup version 1 that can be written, and a /proc without mounts in it.
unit machine sysinit.target <<'UNIT'
[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'for controller in memory pids cpu cpuacct; do mount -o remount,rw,bind /sys/fs/cgroup/$$controller || :; done'
ExecStart=/bin/umount /proc/kmsg
UNIT

# The machine has a network and cgroups of its own. systemd-nspawn leaves a reboot to the one who started it.
boot() {
	local hierarchy group
	while read -r hierarchy; do
		group=$hierarchy/$(basename "$tmp")
		mkdir "$group"
		for file in cpuset.cpus cpuset.mems; do
			[ ! -e "$hierarchy/cgroup.clone_children" ] || [ ! -e "$group/$file" ] || cat "$hierarchy/$file" >"$group/$file"
		done
		echo $BASHPID >"$group/cgroup.procs"
	done < <(findmnt --noheadings --output TARGET --types cgroup,cgroup2)

	export SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes
	local status=133
	while [ $status = 133 ]; do
		status=0
		systemd-nspawn --quiet --register=no --keep-unit --private-network --private-users=no --capability=all \
			--system-call-filter=@known --link-journal=no --resolv-conf=off --console=pipe --directory="$root" --boot \
			systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 systemd.show_status=no </dev/null || status=$?
	done
}
tail -F "$root/root/log" 2>/dev/null &
(boot) || :
sleep 1
kill $!
[ -e "$root/root/passed" ]
