#!/usr/bin/env bash
# kubernetes.sh   follows the section "Kubernetes" of docs/deployment.md on a cluster of one node, which it makes and ends:
# a rollout, the loss of a host's pod amid another, and new settings. As root.
#
# The node is a network, mount and PID namespace, so its bridges, rules, mounts and processes end with it. No image is
# pulled: Kubernetes is built from its modules, and the image's base is made of Debian's packages.
set -Eeuo pipefail
cd "$(dirname "$0")/.."
node=10.0.2.100 # slirp4netns gives it
programs=$PWD/bin/tools/kubernetes-v1.34.4
export PATH=$programs:$PATH

# The programs, as internal/testkit/kubernetes/go.mod pins them.
build() {
	local k=k8s.io/kubernetes/cmd stamp=k8s.io/component-base/version.git
	[ ! -e "$programs/.complete" ] || return 0
	(
		cd internal/testkit/kubernetes
		export CGO_ENABLED=0
		nice go build -ldflags "-s -w -X ${stamp}Version=v1.34.4 -X ${stamp}Major=1 -X ${stamp}Minor=34" -o "$programs/" \
			$k/kube-{apiserver,controller-manager,scheduler,proxy} $k/kubelet $k/kubectl
		nice go build -ldflags '-s -w' -o "$programs/etcd" go.etcd.io/etcd/server/v3
		GOBIN=$programs GOFLAGS= nice go install -ldflags '-s -w' github.com/versity/versitygw/cmd/versitygw@v1.8.0
	)
	touch "$programs/.complete"
}

outside() {
	local missing=()
	for program in containerd:containerd dockerd:docker.io debootstrap:debootstrap slirp4netns:slirp4netns socat:socat \
		iptables:iptables conntrack:conntrack /usr/lib/cni/bridge:containernetworking-plugins; do
		command -v "${program%%:*}" >/dev/null || missing+=("${program##*:}")
	done
	[ ${#missing[@]} -eq 0 ] || { echo "kubernetes.sh: apt-get install ${missing[*]}" >&2; exit 1; }
	build
	deploy/debian.sh bin/roots/trixie ca-certificates # the base of the image, in the place of debian:trixie-slim
	make build

	tmp=$(mktemp -d)
	name=rolloutd-kubernetes-$$
	slirp='' inner=''
	trap end EXIT
	ip netns add "$name"
	slirp4netns --configure --netns-type=path "/run/netns/$name" tap0 >"$tmp/slirp.log" 2>&1 &
	slirp=$!
	findmnt -rno TARGET -t cgroup,cgroup2 | while read -r hierarchy; do
		mkdir "$hierarchy/$name"
	done
	nsenter --net="/run/netns/$name" unshare --mount --pid --fork --kill-child bash "$0" inside "$tmp" "$name" &
	inner=$!
	wait "$inner"
}

# end ends the node, and removes what it leaves outside of its namespaces.
end() {
	# shellcheck disable=SC2086 # one of them may not have started
	{ kill -KILL $inner $slirp; wait $inner $slirp; } 2>/dev/null || true
	ip netns del "$name"
	await 20 find /sys/fs/cgroup -depth -type d -path "*/$name*" -exec rmdir {} + || true # a killed node takes a moment
	rm -rf --one-file-system "$tmp"
}

start() { # NAME COMMAND...
	"${@:2}" >"$tmp/$1.log" 2>&1 &
}

await() { # SECONDS COMMAND...
	for ((i = 0; i < $1; i++)); do
		! "${@:2}" >/dev/null 2>&1 || return 0
		sleep 1
	done
	echo "kubernetes.sh: not within $1 s: ${*:2}" >&2
	return 1
}

# containers starts containerd, makes the image with a Docker of its own, and gives it to containerd.
containers() {
	mkdir -p /etc/cni/net.d
	cat >/etc/cni/net.d/10-bridge.conflist <<-'JSON'
		{"cniVersion": "0.4.0", "name": "pods", "plugins": [
			{"type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": true, "hairpinMode": true,
			 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
			{"type": "portmap", "capabilities": {"portMappings": true}}]}
	JSON
	cat >"$tmp/containerd.toml" <<-'TOML'
		version = 2
		[plugins."io.containerd.grpc.v1.cri"]
		sandbox_image = "docker.io/library/debian:trixie-slim"
		restrict_oom_score_adj = true
		[plugins."io.containerd.grpc.v1.cri".cni]
		bin_dir = "/usr/lib/cni"
	TOML
	start containerd containerd --config "$tmp/containerd.toml"
	start dockerd dockerd --containerd /run/containerd/containerd.sock --cgroup-parent "/$name"
	await 30 docker info
	tar -C bin/roots/trixie -c . | docker import -c 'CMD ["/bin/sleep", "infinity"]' - debian:trixie-slim
	make image
	docker tag rolloutd-env registry.internal/rolloutd-env:1.0
	docker save debian:trixie-slim registry.internal/rolloutd-env:1.0 | ctr -n k8s.io images import -
	kill "$!" && wait "$!" || true
}

# cluster starts Kubernetes.
cluster() {
	local pki=$tmp/pki
	export KUBECONFIG=$tmp/kubeconfig
	mkdir "$pki"
	openssl genrsa -out "$pki/accounts.key" 2048 2>/dev/null
	echo "$name,admin,admin,system:masters" >"$pki/tokens"
	cat >"$KUBECONFIG" <<-YAML
		{apiVersion: v1, kind: Config, current-context: it, contexts: [{name: it, context: {cluster: it, user: it}}],
		users: [{name: it, user: {token: $name}}],
		clusters: [{name: it, cluster: {server: "https://$node:6443", insecure-skip-tls-verify: true}}]}
	YAML
	cat >"$tmp/kubelet.yaml" <<-YAML
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		cgroupDriver: cgroupfs
		cgroupRoot: /$name
		failSwapOn: false
		imageGCHighThresholdPercent: 100
		evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
		authentication: {anonymous: {enabled: true}}
		authorization: {mode: AlwaysAllow}
	YAML
	start etcd etcd --data-dir "$tmp/etcd" --unsafe-no-fsync
	start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address=$node --cert-dir="$pki" \
		--token-auth-file="$pki/tokens" --authorization-mode=AlwaysAllow --kubelet-preferred-address-types=InternalIP --allow-privileged \
		--service-cluster-ip-range=10.96.0.0/16 --service-account-issuer=https://kubernetes.default.svc \
		--service-account-key-file="$pki/accounts.key" --service-account-signing-key-file="$pki/accounts.key"
	await 120 kubectl get --raw /readyz
	start controllers kube-controller-manager --kubeconfig="$KUBECONFIG" --service-account-private-key-file="$pki/accounts.key"
	start scheduler kube-scheduler --kubeconfig="$KUBECONFIG"
	start kubelet kubelet --kubeconfig="$KUBECONFIG" --config="$tmp/kubelet.yaml" --node-ip=$node --hostname-override=node
	start proxy kube-proxy --kubeconfig="$KUBECONFIG" --hostname-override=node --conntrack-max-per-core=0 \
		--conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
	await 120 kubectl wait --for=condition=Ready node/node --timeout=1s
}

# around starts what a deployment needs: Temporal, a bucket, a model, local disks.
around() {
	mkdir -p "$tmp/s3/rollouts" "$tmp/sidecar" "$tmp/data"
	start temporal bin/rolloutd-dev temporal --data "$tmp/temporal" --no-ui
	start forward socat "TCP-LISTEN:7233,bind=$node,fork,reuseaddr" TCP:127.0.0.1:7233
	ROOT_ACCESS_KEY=rolloutd ROOT_SECRET_KEY=$name start s3 versitygw --quiet --port $node:7070 posix --sidecar "$tmp/sidecar" "$tmp/s3"
	sed 's/^  match:/  pace: {delay: 3s}\n&/' internal/scripted/demo.yaml >"$tmp/model.yaml"
	start model bin/rolloutd model --listen $node:9099 --script "$tmp/model.yaml"
	kubectl apply -f - <<-YAML
		apiVersion: storage.k8s.io/v1
		kind: StorageClass
		metadata: {name: local, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
		provisioner: kubernetes.io/no-provisioner
		volumeBindingMode: WaitForFirstConsumer
		---
		apiVersion: v1
		kind: PersistentVolume
		metadata: {name: data}
		spec:
		  storageClassName: local
		  capacity: {storage: 100Gi}
		  accessModes: [ReadWriteOnce]
		  hostPath: {path: $tmp/data}
	YAML
}

# follow does what the page says, but has nothing to push the image to.
follow() {
	key=$(openssl rand -hex 32)
	mkdir "$tmp/my-overlay"
	ln -s "$PWD" "$tmp/rolloutd"
	cat >"$tmp/my-overlay/rolloutd.yaml" <<-YAML
		temporal: {address: "$node:7233"}
		store: {url: "s3://rollouts?region=us-east-1&endpoint=http://$node:7070&use_path_style=true"}
	YAML
	# the page's overlay, with one host, since the cluster has one node, and servers that leave room for new ones beside them
	sed -n '/^# my-overlay/,/^```$/{/^```$/!p}' docs/deployment.md | sed 's/count: 3/count: 1/' >"$tmp/my-overlay/kustomization.yaml"
	cat >>"$tmp/my-overlay/kustomization.yaml" <<-YAML
		  - patch: |
		      apiVersion: apps/v1
		      kind: Deployment
		      metadata: {name: rolloutd-serve}
		      spec: {template: {spec: {containers: [{name: serve, resources: {requests: {cpu: 100m}}}]}}}
	YAML
	kubectl label node node rolloutd/host=true
	kubectl apply -f "$tmp/rolloutd/deploy/kubernetes/namespace.yaml"
	kubectl -n rolloutd create secret generic rolloutd --from-literal=ROLLOUTD_ENCRYPTION_KEY="$key" \
		--from-literal=ROLLOUTD_TOKENS="$name" --from-literal=AWS_ACCESS_KEY_ID=rolloutd \
		--from-literal=AWS_SECRET_ACCESS_KEY="$name" --from-literal=SCRIPTED_URL="http://$node:9099"
	kubectl apply -k "$tmp/my-overlay"
	kubectl -n rolloutd wait --for=condition=Ready pod --all --timeout=180s
}

run() {
	bin/rolloutd run examples/binary_search.yaml --agent react --endpoint scripted --timeout 5m 2>&1
}

rollouts() {
	local rollout
	export ROLLOUTD_SERVER ROLLOUTD_TOKEN=$name
	ROLLOUTD_SERVER=http://$(kubectl -n rolloutd get service rolloutd -o jsonpath='{.spec.clusterIP}'):8000
	run | tee "$tmp/first.log"
	grep '^  reward *1$' "$tmp/first.log"

	echo "a pause from outside of the pod"
	ROLLOUTD_TRAINER_URL=http://$(kubectl -n rolloutd get pod rolloutd-host-0 -o jsonpath='{.status.podIP}'):7071
	export ROLLOUTD_TRAINER_URL ROLLOUTD_ENCRYPTION_KEY=$key
	bin/rolloutd upstream pause scripted
	bin/rolloutd upstream resume scripted

	echo "the pod of a host is deleted amid a rollout"
	start second run
	rollout=$!
	await 60 grep '1 model call' "$tmp/second.log"
	kubectl -n rolloutd delete pod rolloutd-host-0
	wait "$rollout"
	cat "$tmp/second.log"
	grep '^  reward *1$' "$tmp/second.log"
	grep '^  attempts *2 ' "$tmp/second.log"

	echo "new settings, with another rollout at work"
	start third run
	rollout=$!
	await 60 grep '1 model call' "$tmp/third.log"
	bin/rolloutd hosts drain rolloutd-host-0
	sed -i 's/value: "2"/value: "3"/; s/100m/110m/' "$tmp/my-overlay/kustomization.yaml"
	kubectl apply -k "$tmp/my-overlay"
	kubectl -n rolloutd rollout status deployment/rolloutd-serve --timeout=180s
	wait "$rollout"
	cat "$tmp/third.log"
	grep '^  reward *1$' "$tmp/third.log"
	if grep '^  attempts' "$tmp/third.log"; then false; fi
	bin/rolloutd hosts | grep ' drained .* 0/2 '
	kubectl -n rolloutd delete pod rolloutd-host-0
	kubectl -n rolloutd wait --for=condition=Ready pod/rolloutd-host-0 --timeout=180s
	bin/rolloutd hosts resume rolloutd-host-0
	bin/rolloutd hosts | grep ' running .* 0/3 '
}

inside() { # FOLDER NAME
	tmp=$1 name=$2
	trap 'tail -n 5 "$tmp"/*.log >&2; kubectl -n rolloutd get pods,events >&2' ERR
	mount -t proc proc /proc
	for folder in run var/lib/containerd var/lib/docker var/lib/kubelet var/log etc/cni; do
		mkdir -p "$tmp/own/$folder" "/$folder"
		mount --bind "$tmp/own/$folder" "/$folder"
	done
	mount --make-rshared /run
	await 10 ip address show tap0
	ip link set lo up
	echo 1 >/proc/sys/net/ipv4/ip_forward
	containers
	cluster
	around
	follow
	rollouts
}

case ${1:-} in
"") outside ;;
inside) "$@" ;;
*) echo "usage: kubernetes.sh" >&2; exit 2 ;;
esac
