package devserver

import (
	"fmt"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
)

const (
	host        = "127.0.0.1"
	clusterName = "active"
)

// services in the order of the ports that ports returns.
var services = [...]primitives.ServiceName{
	primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
}

// serverConfig describes a whole server in one process: one shard, since SQLite has one writer anyway.
func serverConfig(db *config.SQL, ports [len(services)]int) *config.Config {
	frontend := address(ports[0])

	return &config.Config{
		Global: config.Global{Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: host}},
		Persistence: config.Persistence{
			DefaultStore:     sqlite.PluginName,
			VisibilityStore:  sqlite.PluginName,
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{sqlite.PluginName: {SQL: db}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            rpcServices(ports),
		Archival:            noArchival(),
		PublicClient:        config.PublicClient{HostPort: frontend},
		NamespaceDefaults:   noNamespaceArchival(),
	}
}

func rpcServices(ports [len(services)]int) map[string]config.Service {
	out := map[string]config.Service{}
	for i, name := range services {
		out[string(name)] = config.Service{RPC: config.RPC{GRPCPort: ports[i], BindOnIP: host}}
	}

	return out
}

// staticHosts takes the place of a cluster's gossip ring.
func staticHosts(ports [len(services)]int) map[primitives.ServiceName]static.Hosts {
	out := map[primitives.ServiceName]static.Hosts{}
	for i, name := range services {
		out[name] = static.SingleLocalHost(address(ports[i]))
	}

	return out
}

func noArchival() config.Archival {
	return config.Archival{
		History:    config.HistoryArchival{State: "disabled"},
		Visibility: config.VisibilityArchival{State: "disabled"},
	}
}

func noNamespaceArchival() config.NamespaceDefaults {
	return config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
		History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
		Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
	}}
}

func address(port int) string { return fmt.Sprintf("%s:%d", host, port) }
