// Package harbor is the environment that OpenEnv's HarborEnv clients expect: its three tools, its Task API and its results, over the
// rollouts and task sets of this server.
package harbor
