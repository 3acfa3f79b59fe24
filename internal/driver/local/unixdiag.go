package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// diagTimeout bounds the wait for each part of the kernel's answer, which is ready when the query returns.
var diagTimeout = unix.Timeval{Sec: 10}

// UnixListeners is the files of the sockets that had a listener when ListUnixListeners was called. The nil set is
// empty.
type UnixListeners map[file]struct{}

// file identifies a file as the kernel's socket diagnosis does.
type file struct {
	Inode, Device uint32
}

// request is the kernel's struct unix_diag_req.
type request struct {
	Family, Protocol uint8
	_                uint16
	States           uint32
	Inode            uint32
	Show             uint32
	Cookie           [2]uint32
}

const (
	// TCP_LISTEN, which unix sockets use too
	stateListen = 10

	// UDIAG_SHOW_VFS
	showFile = 0x2

	// UNIX_DIAG_VFS
	attrFile = 1

	// size of struct unix_diag_msg, before the attributes
	answerSize = 16
)

// ListUnixListeners returns the sockets with a listener in this process's network namespace.
func ListUnixListeners() (UnixListeners, error) {
	fd, err := sendQuery(request{Family: unix.AF_UNIX, States: 1 << stateListen, Show: showFile})
	if err != nil {
		return nil, fmt.Errorf("socket diagnosis: %w", err)
	}
	defer unix.Close(fd)
	// the kernel's messages are smaller
	set, buf := UnixListeners{}, make([]byte, 32<<10)
	for done := false; !done && err == nil; {
		done, err = set.readPart(fd, buf)
	}

	if err != nil {
		return nil, fmt.Errorf("socket diagnosis: %w", err)
	}

	return set, nil
}

// Has reports whether the socket at path has a listener. False proves nothing: the file system may number
// its files differently, or the listener may be in another network namespace.
func (s UnixListeners) Has(path string) bool {
	var st unix.Stat_t
	if len(s) == 0 || unix.Lstat(path, &st) != nil || st.Ino > math.MaxUint32 {
		return false
	}
	// the kernel's encoding
	device := unix.Major(st.Dev)<<20 | unix.Minor(st.Dev)
	_, found := s[file{Inode: uint32(st.Ino), Device: device}]

	return found
}

// sendQuery sends a query for a list and returns the socket of the answer.
func sendQuery(q request) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}

	var msg bytes.Buffer

	head := unix.NlMsghdr{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP}
	head.Len = uint32(binary.Size(head) + binary.Size(q))
	// a buffer in memory accepts every write
	_ = binary.Write(&msg, binary.NativeEndian, head)
	_ = binary.Write(&msg, binary.NativeEndian, q)

	err = errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &diagTimeout),
		unix.Sendto(fd, msg.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}

	return fd, nil
}

// readPart adds a part of the answer; done: it was the last one.
func (s UnixListeners) readPart(fd int, buf []byte) (done bool, err error) {
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}

	if err != nil {
		return false, os.NewSyscallError("recvfrom", err)
	}

	messages, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil {
		return false, err
	}

	for _, m := range messages {
		switch m.Header.Type {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			return false, errnoOf(m.Data)
		}

		s.addSocket(m.Data)
	}

	return false, nil
}

// addSocket adds the file of one socket; an abstract one has none.
func (s UnixListeners) addSocket(answer []byte) {
	for rest := answer[min(answerSize, len(answer)):]; len(rest) >= unix.SizeofRtAttr; {
		length, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if length < unix.SizeofRtAttr || length > len(rest) {
			return
		}

		if value := rest[unix.SizeofRtAttr:length]; kind == attrFile && len(value) == 8 {
			s[file{binary.NativeEndian.Uint32(value), binary.NativeEndian.Uint32(value[4:])}] = struct{}{}
		}

		const align = unix.NLMSG_ALIGNTO - 1

		rest = rest[min((length+align)&^align, len(rest)):]
	}
}

func errnoOf(data []byte) error {
	if len(data) < 4 {
		return unix.EBADMSG
	}

	return unix.Errno(-int32(binary.NativeEndian.Uint32(data)))
}
