package devserver_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/dynamicconfig"
	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/cmd/rolloutd-dev/devserver"
)

// The Temporal cluster of the compose file has the same dynamic configuration as the embedded server.
func TestClusterHasTheSameDynamicConfig(t *testing.T) {
	t.Parallel()

	data, err := os.ReadFile("../../../deploy/temporal/dynamicconfig.yaml")
	require.NoError(t, err)

	var file map[string][]struct{ Value any }
	require.NoError(t, yaml.Unmarshal(data, &file))

	configured := map[string]string{}

	for name, values := range file {
		require.Len(t, values, 1, name)
		configured[dynamicconfig.MakeKey(name).String()] = fmt.Sprint(values[0].Value)
	}

	want := map[string]string{}
	for key, value := range devserver.DynamicConfig() {
		want[key.String()] = fmt.Sprint(value)
	}

	require.Equal(t, want, configured)
}
