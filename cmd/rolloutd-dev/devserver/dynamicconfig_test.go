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

// A cluster of the compose file is told what the embedded server is told.
func TestClusterHasTheSameDynamicConfig(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../../deploy/temporal/dynamicconfig.yaml")
	require.NoError(t, err)
	var file map[string][]struct{ Value any }
	require.NoError(t, yaml.Unmarshal(data, &file))
	told := map[string]string{}
	for name, values := range file {
		require.Len(t, values, 1, name)
		told[dynamicconfig.MakeKey(name).String()] = fmt.Sprint(values[0].Value)
	}
	want := map[string]string{}
	for key, value := range devserver.DynamicConfig() {
		want[key.String()] = fmt.Sprint(value)
	}
	require.Equal(t, want, told)
}
