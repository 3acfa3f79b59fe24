package devserver

import (
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// dynamicConfig is the server's settings for one shard on one host. The stock values are made for clusters: with one shard
// they cost 50 ms at every hop of a task (a queue reads 20 times a second), and a poll that misses the end of its workflow
// sleeps for 20 s. Clients of rolloutd end their polls earlier. Fairness gives each producer and each owner a share of the hosts.
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
