package process

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
)

// socketEntry is one line of /proc/net/tcp or tcp6.
type socketEntry struct {
	// address:port, in the kernel's hexadecimal form
	local, remote string
	listening     bool

	// 0: none holds it
	inode uint64
}

// eachSocket calls f for the TCP sockets of the sandbox until f returns false, the listening ones of each file first.
func eachSocket(f func(socketEntry) bool) error {
	for _, name := range []string{"net/tcp", "net/tcp6"} {
		more, err := eachSocketOf(name, f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}

		if !more {
			return nil
		}
	}

	return nil
}

func eachSocketOf(name string, f func(socketEntry) bool) (more bool, err error) {
	file, err := openProc(name)
	if err != nil {
		return true, err
	}
	defer file.Close()

	for lines := bufio.NewScanner(file); lines.Scan(); {
		if e, ok := parseSocket(lines.Text()); ok && !f(e) {
			return false, nil
		}
	}

	return true, nil
}

// parseSocket parses "sl: local remote state queues timer retransmits uid timeout inode …".
func parseSocket(line string) (socketEntry, bool) {
	fields := strings.Fields(line)
	if len(fields) < 10 {
		return socketEntry{}, false
	}

	inode, err := strconv.ParseUint(fields[9], 10, 64)

	return socketEntry{local: fields[1], remote: fields[2], listening: fields[3] == "0A", inode: inode}, err == nil
}

// hexAddr returns the kernel's forms of an IPv4 address: plain, and mapped into IPv6.
func hexAddr(a netip.AddrPort) [2]string {
	ip := a.Addr().Unmap().As4()
	plain := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), a.Port())

	return [2]string{plain, mappedPrefix() + plain}
}

func mappedPrefix() string {
	var word [4]byte
	binary.NativeEndian.PutUint32(word[:], binary.BigEndian.Uint32([]byte{0, 0, 0xff, 0xff}))

	return strings.Repeat("0", 16) + strings.ToUpper(hex.EncodeToString(word[:]))
}

// clientInode returns the inode of the socket that has connected from client to server; 0: not found.
func clientInode(client, server netip.AddrPort) (uint64, error) {
	if !client.Addr().Unmap().Is4() || !server.Addr().Unmap().Is4() {
		return 0, nil
	}

	if inode, err := connected(client, server); err == nil {
		return inode, nil
	}

	return readClient(client, server)
}

// listener is a socket that listens.
type listener struct {
	port  uint16
	inode uint64
}

// listeners returns the sockets that listen on a port, on any address; port 0: on any port.
func listeners(port uint16) ([]listener, error) {
	if found, err := listening(port); err == nil {
		return found, nil
	}

	return readListeners(port)
}

// readClient is connected for kernels without socket diagnosis. It takes a millisecond or more, since the
// kernel walks through all sockets of the machine.
func readClient(client, server netip.AddrPort) (inode uint64, err error) {
	local, remote := hexAddr(client), hexAddr(server)
	err = eachSocket(func(e socketEntry) bool {
		for i := range local {
			if e.local == local[i] && e.remote == remote[i] {
				inode = e.inode
				return false
			}
		}

		return true
	})

	return inode, err
}

// readListeners is listening for kernels without socket diagnosis.
func readListeners(port uint16) (found []listener, err error) {
	err = eachSocket(func(e socketEntry) bool {
		if !e.listening {
			return true
		}

		_, digits, _ := strings.Cut(e.local, ":")

		at, err := strconv.ParseUint(digits, 16, 16)
		if err == nil && (port == 0 || uint16(at) == port) {
			found = append(found, listener{uint16(at), e.inode})
		}

		return true
	})

	return found, err
}
