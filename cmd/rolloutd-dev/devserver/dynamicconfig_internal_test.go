package devserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
)

// The server reads the bounds of its memory: it ignores a setting whose value has another type.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()

	server := dynamicconfig.NewCollection(settings(), log.NewNoopLogger())
	require.Zero(t, dynamicconfig.XDCCacheMaxSizeBytes.Get(server)())
	require.Equal(t, cachedWorkflows, dynamicconfig.HistoryCacheHostLevelMaxSize.Get(server)())
	require.Equal(t, cacheTime, dynamicconfig.HistoryCacheTTL.Get(server)())

	evict := dynamicconfig.HistoryCacheBackgroundEvict.Get(server)()
	require.True(t, evict.Enabled)
	require.Less(t, evict.LoopInterval, cacheTime)
}
