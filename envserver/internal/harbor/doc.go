// Package harbor is the environment for clients of OpenEnv's HarborEnv: its three tools, its Task API and
// its results, over the rollouts and task sets of this server.
package harbor
