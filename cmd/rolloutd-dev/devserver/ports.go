package devserver

import (
	"errors"
	"math/rand/v2"
	"net"

	"github.com/rolloutd/rolloutd/internal/network/listen"
)

// choosePorts picks the ports of the server's parts: that of the front end (0: any), and free ones for the
// parts behind it.
type choosePorts func(front int) ([len(services)]int, error)

// freePorts chooses ports that are not in use. All are held open until all are chosen, so that no two are the same.
func freePorts(front int) (ports [len(services)]int, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()

	for i := range ports {
		open := free
		if i == 0 {
			open = func() (net.Listener, error) { return listen.TCP("Temporal", address(front), "--temporal-port") }
		}

		l, err := open()
		if err != nil {
			return ports, err
		}

		held = append(held, l)
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}

	return ports, nil
}

// free listens on an unused port outside of the range for outgoing connections: such a connection could
// take the port before Temporal listens on it.
func free() (net.Listener, error) {
	// Linux gives outgoing connections the ports from 32768 on
	const lowest, count = 10000, 5000
	for range 100 {
		if l, err := net.Listen("tcp", address(lowest+rand.IntN(count))); err == nil {
			return l, nil
		}
	}

	return listen.TCP("Temporal", address(0), "--temporal-port")
}
