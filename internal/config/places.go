package config

import (
	"net"
	"path/filepath"
)

// KeyFile holds the deployment's key unless a setting has it.
func (c Config) KeyFile() string { return filepath.Join(c.Data, "key") }

// HostIDFile holds the name under which Temporal knows this host.
func (c Config) HostIDFile() string { return filepath.Join(c.Data, "host_id") }

// SearchFile holds the index of transcripts of a server.
func (c Config) SearchFile() string { return filepath.Join(c.Data, "search.db") }

// SandboxDir holds the local sandboxes' sockets and state.
func (c Config) SandboxDir() string { return filepath.Join(c.Data, "sandboxes") }

// DockerDir holds the name under which the containers of this host are known, and their sockets.
func (c Config) DockerDir() string { return filepath.Join(c.Data, "docker") }

// E2BDir holds the name under which the E2B sandboxes of this host are known, and locks.
func (c Config) E2BDir() string { return filepath.Join(c.Data, "e2b") }

// GatewayDir holds the gateway's journal and the traces of open routes.
func (c Config) GatewayDir() string { return filepath.Join(c.Data, "gateway") }

// NetworkDir holds the logs of connections that sandboxes made to hosts outside.
func (c Config) NetworkDir() string { return filepath.Join(c.Data, "network") }

// EpisodesDir holds the step logs of open episodes.
func (c Config) EpisodesDir() string { return filepath.Join(c.Data, "episodes") }

// AgentsDir holds the agents' programs.
func (c Config) AgentsDir() string {
	if c.Sandbox.AgentsDir != "" {
		return c.Sandbox.AgentsDir
	}

	return filepath.Join(c.Data, "agents")
}

// BinDir is one of the folders that are searched for sandboxd.
func (c Config) BinDir() string { return filepath.Join(c.Data, "bin") }

// StoreURL is the URL or folder of the store.
func (c Config) StoreURL() string {
	if c.Store.URL != "" {
		return c.Store.URL
	}

	return filepath.Join(c.Data, "store")
}

// GatewayURL is the gateway's URL for this host's worker.
func (c Config) GatewayURL() string {
	if c.Gateway.URL != "" {
		return c.Gateway.URL
	}

	return "http://" + c.Gateway.Listen
}

// TrainerURL is the URL of the gateway's trainer API.
func (c Config) TrainerURL() string {
	if c.Gateway.TrainerURL != "" {
		return c.Gateway.TrainerURL
	}

	return "http://" + c.Gateway.TrainerListen
}

// TemporalAddress is the address of Temporal; empty if Temporal's own configuration file has it.
func (c Config) TemporalAddress() string {
	if c.Temporal.Address != "" || c.Temporal.Env["TEMPORAL_CONFIG_FILE"] != "" {
		return c.Temporal.Address
	}

	return "127.0.0.1:7233"
}

// ModelLookup returns a variable of the model catalog, or "". SCRIPTED_URL defaults to the address of this
// configuration's scripted model.
func (c Config) ModelLookup(name string) string {
	if v := c.ModelEnv[name]; v != "" || name != "SCRIPTED_URL" {
		return v
	}

	return "http://" + c.Model.Listen + "/v1"
}

// Loopback reports whether only this machine can reach the address.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		// Validate reports the address
		return true
	}

	if host == "localhost" {
		return true
	}

	ip := net.ParseIP(host)

	return ip != nil && ip.IsLoopback()
}
