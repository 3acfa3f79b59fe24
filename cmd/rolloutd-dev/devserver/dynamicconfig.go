package devserver

import (
	"maps"
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// settings are all settings of the server.
func settings() dynamicconfig.StaticClient {
	all := dynamicConfig()
	maps.Copy(all, memoryConfig())

	return all
}

// dynamicConfig is the server's settings for one shard on one host. The stock values are made for clusters:
// with one shard they cost 50 ms at every hop of a task (a queue reads 20 times a second), and a poll that
// misses the end of its workflow sleeps for 20 s. Clients of rolloutd end their polls earlier. Fairness
// gives each producer and each owner a share of the hosts.
func dynamicConfig() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():                  2000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():                     500,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key():                200,
		dynamicconfig.HistoryLongPollExpirationInterval.Key():            10 * time.Second,
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():           1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key():          1,
		dynamicconfig.MatchingEnableFairness.Key():                       true,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
	}
}

// memoryConfig is what bounds the memory of the server beside daemon and sandboxes. A cluster keeps the stock values.
func memoryConfig() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// Events for other clusters: there are none. 8 MiB of events take several times that in memory. The
		// server raises 0 to 64 KiB.
		dynamicconfig.XDCCacheMaxSizeBytes.Key(): 0,

		// The stock values keep 128,000 workflows in memory, for an hour and then until the next one needs
		// the place. A workflow that is needed again is read from SQLite.
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): cachedWorkflows,
		dynamicconfig.HistoryCacheTTL.Key():              cacheTime,
		dynamicconfig.HistoryCacheBackgroundEvict.Key(): dynamicconfig.CacheBackgroundEvictSettings{
			Enabled: true, LoopInterval: cacheTime / 4, MaxEntryPerCall: cachedWorkflows,
		},
	}
}

const (
	// cachedWorkflows bounds the workflows in memory. A host has at most some thousand rollouts at once.
	cachedWorkflows = 4000
	// cacheTime is how long a workflow stays in memory after it was read.
	cacheTime = 2 * time.Minute
)
