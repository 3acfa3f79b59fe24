// Package rest serves rollouts as HTTP resources for people and scripts, besides the OpenEnv protocol.
package rest
