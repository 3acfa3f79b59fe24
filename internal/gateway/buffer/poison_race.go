//go:build race

package buffer

const poisons = true
