//go:build !race

package upstream

const poisons = false
