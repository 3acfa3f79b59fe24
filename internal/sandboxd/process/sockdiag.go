package process

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// States of TCP sockets in the kernel's numbers.
const (
	stateTimeWait = 6
	stateListen   = 10
)

// diagTimeout bounds the wait for the kernel's answer, which is ready when the query returns.
var diagTimeout = unix.Timeval{Sec: 10}

// socketID is the kernel's struct inet_diag_sockid; ports and addresses are in network byte order.
type socketID struct {
	// local, remote
	Ports     [4]byte
	Local     [16]byte
	Remote    [16]byte
	Interface uint32
	Cookie    [2]uint32
}

// diagRequest is the kernel's struct inet_diag_req_v2.
type diagRequest struct {
	Family, Protocol, Extensions, _ uint8
	States                          uint32
	ID                              socketID
}

// diagAnswer is the kernel's struct inet_diag_msg.
type diagAnswer struct {
	Family, State, Timer, Retransmits uint8
	ID                                socketID
	Expires, Receives, Sends, User    uint32
	Inode                             uint32
}

// connected queries the kernel for the inode of the socket that has connected from client to server, both
// IPv4; 0: none.
func connected(client, server netip.AddrPort) (uint64, error) {
	q := diagRequest{Family: unix.AF_INET, Protocol: unix.IPPROTO_TCP, States: ^uint32(0)}
	// any
	q.ID.Cookie = [2]uint32{^uint32(0), ^uint32(0)}
	binary.BigEndian.PutUint16(q.ID.Ports[:], client.Port())
	binary.BigEndian.PutUint16(q.ID.Ports[2:], server.Port())
	local, remote := client.Addr().Unmap().As4(), server.Addr().Unmap().As4()
	copy(q.ID.Local[:], local[:])
	copy(q.ID.Remote[:], remote[:])

	d, err := openDiagnosis()
	if err != nil {
		return 0, err
	}
	defer d.close()

	answers, err := d.sendQuery(q, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return 0, nil
	case err != nil || len(answers) == 0:
		return 0, err
	case answers[0].State == stateListen || answers[0].State == stateTimeWait: // the lookup falls back to listeners
		return 0, nil
	}

	return uint64(answers[0].Inode), nil
}

// listening queries the kernel for the sockets that listen on a port, on any address; port 0: on any port.
func listening(port uint16) (found []listener, err error) {
	d, err := openDiagnosis()
	if err != nil {
		return nil, err
	}
	defer d.close()

	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		q := diagRequest{Family: family, Protocol: unix.IPPROTO_TCP, States: 1 << stateListen}
		binary.BigEndian.PutUint16(q.ID.Ports[:], port)

		answers, err := d.sendQuery(q, unix.NLM_F_DUMP)
		if err != nil {
			return nil, err
		}

		for _, a := range answers {
			if p := binary.BigEndian.Uint16(a.ID.Ports[:]); port == 0 || p == port {
				found = append(found, listener{p, uint64(a.Inode)})
			}
		}
	}

	return found, nil
}

// diagnosis is a connection to the kernel's socket diagnosis, for several queries in turn.
type diagnosis struct {
	fd  int
	buf []byte
}

func openDiagnosis() (*diagnosis, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	// the kernel's messages are smaller
	d := &diagnosis{fd: fd, buf: make([]byte, 32<<10)}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &diagTimeout); err != nil {
		d.close()
		return nil, os.NewSyscallError("setsockopt", err)
	}

	return d, nil
}

func (d *diagnosis) close() { _ = unix.Close(d.fd) }

// sendQuery sends one query and reads the whole answer.
func (d *diagnosis) sendQuery(q diagRequest, flags uint16) ([]diagAnswer, error) {
	var msg bytes.Buffer

	head := unix.NlMsghdr{Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST | flags}
	head.Len = uint32(binary.Size(head) + binary.Size(q))
	// a buffer in memory accepts every write
	_ = binary.Write(&msg, binary.NativeEndian, head)

	_ = binary.Write(&msg, binary.NativeEndian, q)
	if err := unix.Sendto(d.fd, msg.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}

	return d.answers(flags&unix.NLM_F_DUMP != 0)
}

// answers reads one answer, or a list up to its end.
func (d *diagnosis) answers(list bool) (answers []diagAnswer, err error) {
	for {
		n, _, err := unix.Recvfrom(d.fd, d.buf, 0)
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}

		messages, err := syscall.ParseNetlinkMessage(d.buf[:n])
		if err != nil {
			return nil, fmt.Errorf("socket diagnosis: %w", err)
		}

		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return answers, nil
			case unix.NLMSG_ERROR:
				return nil, fmt.Errorf("socket diagnosis: %w", errnoOf(m.Data))
			}

			var a diagAnswer
			if err := binary.Read(bytes.NewReader(m.Data), binary.NativeEndian, &a); err != nil {
				return nil, fmt.Errorf("socket diagnosis: %w", err)
			}

			answers = append(answers, a)
		}

		if !list {
			return answers, nil
		}
	}
}

func errnoOf(data []byte) error {
	if len(data) < 4 {
		return unix.EBADMSG
	}

	return unix.Errno(-int32(binary.NativeEndian.Uint32(data)))
}
