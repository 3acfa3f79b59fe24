//go:build race

package gateway

const spoils = true
