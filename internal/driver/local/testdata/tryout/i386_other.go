//go:build !amd64

package main

import "golang.org/x/sys/unix"

// i386: only amd64 has that way in.
func i386(uint32) error { return unix.EPERM }
