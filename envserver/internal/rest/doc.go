// Package rest serves rollouts as plain HTTP resources for people and scripts, besides the OpenEnv protocol.
package rest
