// Package manifests tests what deploy/ has for Kubernetes and systemd.
package manifests
