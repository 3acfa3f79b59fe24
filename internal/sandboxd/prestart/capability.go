package prestart

import (
	"math/bits"

	"golang.org/x/sys/unix"
)

// setInheritable makes a set of capabilities survive the change of the user. It is called as root, before
// the bounding set is emptied, which limits the inheritable set.
func setInheritable(set uint64) error {
	if set == 0 {
		return nil
	}

	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}

	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}

	data[0].Inheritable, data[1].Inheritable = uint32(set), uint32(set>>32)
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}

	return unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0)
}

// leave reduces the process's capabilities to that set. The subset ambient stays with every program that
// the process executes.
func leave(set, ambient uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{
		{Effective: uint32(set), Permitted: uint32(set), Inheritable: uint32(ambient)},
		{Effective: uint32(set >> 32), Permitted: uint32(set >> 32), Inheritable: uint32(ambient >> 32)},
	}
	// also removes capabilities that are not inheritable from the ambient set
	if err := unix.Capset(&header, &data[0]); err != nil {
		return err
	}

	for left := ambient; left != 0; left &= left - 1 {
		c := uintptr(bits.TrailingZeros64(left))
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return err
		}
	}

	return nil
}
