package manifests_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/rolloutd/rolloutd/internal/config"
)

// The base renders, each object has only fields of its kind, and the configuration and environment of the
// containers are valid for their roles.
func TestKubernetes(t *testing.T) {
	t.Parallel()

	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), "../../../deploy/kubernetes")
	require.NoError(t, err)

	kinds := map[string]int{}
	roles := map[string]corev1.Container{}

	for _, r := range rendered.Resources() {
		kinds[r.GetKind()]++
		text, err := r.AsYAML()
		require.NoError(t, err)

		switch r.GetKind() {
		case "Namespace":
			strict(t, text, &corev1.Namespace{})
		case "Service":
			strict(t, text, &corev1.Service{})
		case "ConfigMap":
			var c corev1.ConfigMap
			strict(t, text, &c)
			parsed, err := config.Load(strings.NewReader(c.Data["rolloutd.yaml"]), nil)
			require.NoError(t, err)
			require.NoError(t, parsed.Validate())
		case "Deployment":
			var d appsv1.Deployment
			strict(t, text, &d)
			require.Equal(t, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels)
			add(roles, d.Spec.Template.Spec)
		case "StatefulSet":
			var s appsv1.StatefulSet
			strict(t, text, &s)
			require.Equal(t, s.Spec.Selector.MatchLabels, s.Spec.Template.Labels)
			add(roles, s.Spec.Template.Spec)
		default:
			require.Failf(t, "not checked", "%s", r.GetKind())
		}
	}

	require.Equal(t, map[string]int{
		"Namespace":   1,
		"Service":     2,
		"ConfigMap":   1,
		"Deployment":  1,
		"StatefulSet": 1,
	}, kinds)
	require.Len(t, roles, 3)

	for name, c := range roles {
		require.Equal(t, []string{"rolloutd", name}, c.Command[:2])

		env := config.Environ{}
		for _, v := range c.Env {
			env[v.Name] = v.Value
		}

		require.NoError(t, env.Check())
		require.NotNil(t, c.ReadinessProbe)
	}
}

// The overlay in docs/deployment.md sets the image, the configuration, the number of hosts and what one requests.
func TestDocumentedOverlay(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../../docs/deployment.md")
	require.NoError(t, err)

	_, after, found := strings.Cut(string(page), "```yaml\n# my-overlay/kustomization.yaml")
	require.True(t, found)
	overlay, _, found := strings.Cut(after, "```")
	require.True(t, found)

	disk := filesys.MakeFsInMemory()
	require.NoError(t, disk.WriteFile("/my-overlay/kustomization.yaml", []byte("#"+overlay)))
	require.NoError(t, disk.WriteFile("/my-overlay/rolloutd.yaml", []byte("store: {url: s3://mine}")))

	base, err := filepath.Glob("../../../deploy/kubernetes/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, base)

	for _, file := range base {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, disk.WriteFile("/rolloutd/deploy/kubernetes/"+filepath.Base(file), text))
	}

	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/my-overlay")
	require.NoError(t, err)
	text, err := rendered.AsYaml()
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(text), "image: registry.internal/rolloutd-env:1.0"))
	require.NotContains(t, string(text), "s3://rollouts")
	require.Contains(t, string(text), "s3://mine")
	require.Contains(t, string(text), "replicas: 3")

	hosts := map[string]corev1.Container{}

	for _, r := range rendered.Resources() {
		if r.GetKind() != "StatefulSet" {
			continue
		}

		text, err := r.AsYAML()
		require.NoError(t, err)

		var s appsv1.StatefulSet
		strict(t, text, &s)
		add(hosts, s.Spec.Template.Spec)
	}

	require.Len(t, hosts, 2)
	worker := hosts["worker"]
	require.Equal(t, "6Gi", worker.Resources.Requests.Memory().String())
	require.Contains(t, worker.Env, corev1.EnvVar{Name: "ROLLOUTD_WORKER_CAPACITY", Value: "2"})
}

func add(roles map[string]corev1.Container, pod corev1.PodSpec) {
	for _, c := range pod.Containers {
		roles[c.Name] = c
	}
}

func strict(t *testing.T, text []byte, into any) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict(text, into), "%s", text)
}
