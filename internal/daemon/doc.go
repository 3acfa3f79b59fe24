// Package daemon is the only wiring: it builds each role (serve, worker, gateway, scripted model) from the configuration,
// starts what they need in order, stops it in reverse with a budget for each tier, and ends the process once, with its
// error, when a tier dies by itself.
package daemon
