// Package daemon builds the roles (serve, worker, gateway, scripted model) from the configuration. It
// starts their tiers in order, stops them in reverse with a time budget each, and ends the process with the
// error of a tier that fails.
package daemon
