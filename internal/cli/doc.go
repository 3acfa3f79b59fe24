// Package cli has the parts of the commands: progress lines, tables, exit codes and the checks of flags. It
// reaches a server through package client only.
package cli
