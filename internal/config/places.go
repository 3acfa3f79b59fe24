package config

import (
	"net"
	"path/filepath"
)

// KeyFile holds the deployment's key if no setting has it.
func (c Config) KeyFile() string { return filepath.Join(c.Data, "key") }

// HostIDFile holds the name under which Temporal knows this host.
func (c Config) HostIDFile() string { return filepath.Join(c.Data, "host_id") }

// SandboxDir holds the local sandboxes' sockets and state.
func (c Config) SandboxDir() string { return filepath.Join(c.Data, "sandboxes") }

// GatewayDir holds the gateway's journal and the traces of open routes.
func (c Config) GatewayDir() string { return filepath.Join(c.Data, "gateway") }

// AgentsDir holds the agents' binaries.
func (c Config) AgentsDir() string { return filepath.Join(c.Data, "agents") }

// BinDir is one of the places where sandboxd is looked for.
func (c Config) BinDir() string { return filepath.Join(c.Data, "bin") }

// StoreURL is where the store is.
func (c Config) StoreURL() string {
	if c.Store.URL != "" {
		return c.Store.URL
	}
	return filepath.Join(c.Data, "store")
}

// GatewayURL is where this host's worker finds the gateway.
func (c Config) GatewayURL() string {
	if c.Gateway.URL != "" {
		return c.Gateway.URL
	}
	return "http://" + c.Gateway.Listen
}

// TrainerURL is where the gateway's trainer API is found.
func (c Config) TrainerURL() string {
	if c.Gateway.TrainerURL != "" {
		return c.Gateway.TrainerURL
	}
	return "http://" + c.Gateway.TrainerListen
}

// TemporalAddress is where Temporal is looked for; empty where a configuration file of Temporal's own says it.
func (c Config) TemporalAddress() string {
	if c.Temporal.Address != "" || c.Temporal.Env["TEMPORAL_CONFIG_FILE"] != "" {
		return c.Temporal.Address
	}
	return "127.0.0.1:7233"
}

// ModelLookup looks up a variable of the model catalog; a variable that is not set is empty. Without a setting, the
// scripted endpoint is where this configuration's own scripted model listens.
func (c Config) ModelLookup(name string) string {
	if v := c.ModelEnv[name]; v != "" || name != "SCRIPTED_URL" {
		return v
	}
	return "http://" + c.Model.Listen + "/v1"
}

// Loopback says whether only this machine can reach the address.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return true // told as a bad address instead
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
