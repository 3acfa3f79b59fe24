// Package cli holds what the commands for people are made of: progress lines, tables, exit codes and the checks of
// flags. It reaches a server through package client only.
package cli
