// Package rest serves rollouts as plain HTTP resources, for people and scripts, beside what OpenEnv has.
package rest
