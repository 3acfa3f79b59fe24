// Package formats writes training sequences in the forms of their consumers: Atropos' trainer API and TRL's
// rollout functions.
package formats
