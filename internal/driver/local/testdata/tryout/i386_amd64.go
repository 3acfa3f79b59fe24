package main

import "golang.org/x/sys/unix"

// int80 makes a system call by the 32-bit way in.
func int80(nr uint32) int32

func i386(nr uint32) error {
	if r := int80(nr); r < 0 {
		return unix.Errno(-r)
	}
	return nil
}
