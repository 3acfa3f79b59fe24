package daemon_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/fault"
)

func TestErrorOfAnUnknownSinkListsTheSinks(t *testing.T) {
	t.Parallel()

	all := map[string]config.Sink{"trainer": {}, "disk": {}}
	require.NoError(t, daemon.CheckSink(all, "disk"))
	err := daemon.CheckSink(all, "dsk")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, `must be one of disk, trainer; got "dsk"`)
	require.ErrorContains(t, daemon.CheckSink(nil, "disk"), `no sink "disk": the configuration has no sinks`)
}
