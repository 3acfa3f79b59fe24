//go:build tools

// Package kubernetes pins the Kubernetes that `deploy/suite.sh kubernetes` builds. It is a module of its own, so that
// nothing else compiles it. Kubernetes' own go.mod has replacements, which `go install` refuses; this one names the
// published modules in their place.
package kubernetes

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
