package devserver

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"

	"github.com/rolloutd/rolloutd/internal/network/listen"
)

// choosePorts picks the ports of the server's parts: that of the front end (0: any), and free ones for the
// parts behind it. Others do not choose these until block is closed.
type choosePorts func(front int) (ports [len(services)]int, block io.Closer, err error)

// freePorts chooses ports that are not in use. Those of the parts behind the front end follow one that stays open as
// the block: two servers that start at the same time never choose the same.
func freePorts(front int) (ports [len(services)]int, block io.Closer, err error) {
	first, err := listen.TCP("Temporal", address(front), "--temporal-port")
	if err != nil {
		return ports, nil, err
	}

	defer func() { err = errors.Join(err, first.Close()) }()

	ports[0] = first.Addr().(*net.TCPAddr).Port

	// Linux gives outgoing connections the ports from 32768 on: one could take a port before Temporal listens on it.
	const lowest, blocks = 10000, 1250
	for range 100 {
		base := lowest + len(ports)*rand.IntN(blocks)
		if block, err = openBlock(base); err != nil {
			continue
		}

		for i := range ports[1:] {
			ports[1+i] = base + 1 + i
		}

		return ports, block, nil
	}

	return ports, nil, fmt.Errorf("find ports for Temporal: %w", err)
}

// openBlock listens on a port, if as many after it are free as there are parts behind the front end.
func openBlock(base int) (io.Closer, error) {
	block, err := net.Listen("tcp", address(base))
	if err != nil {
		return nil, err
	}

	for i := range len(services) - 1 {
		l, err := net.Listen("tcp", address(base+1+i))
		if err == nil {
			err = l.Close()
		}

		if err != nil {
			return nil, errors.Join(err, block.Close())
		}
	}

	return block, nil
}
