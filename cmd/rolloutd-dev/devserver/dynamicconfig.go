package devserver

import (
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// dynamicConfig is the server's settings for one shard on one host. The stock values are made for clusters: with one shard
// they cost 50 ms at every hop of a task (a queue reads 20 times a second), and a client that waits for a result can miss
// its end and sleep for 20 s until its poll is renewed.
func dynamicConfig() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():                  2000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():                     500,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key():                200,
		dynamicconfig.HistoryLongPollExpirationInterval.Key():            time.Second,
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():           1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key():          1,
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key():      true,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
	}
}
