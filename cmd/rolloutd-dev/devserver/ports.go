package devserver

import (
	"errors"
	"net"

	"github.com/rolloutd/rolloutd/internal/listen"
)

// choosePorts picks the ports of the server's parts: the front's own (0: any), and free ones for the parts that only it
// talks to. All are held open until all are chosen, so that no two are the same.
func choosePorts(front int) (ports [len(services)]int, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	for i := range ports {
		port := 0
		if i == 0 {
			port = front
		}
		l, err := listen.TCP("Temporal", address(port), "--temporal-port")
		if err != nil {
			return ports, err
		}
		held = append(held, l)
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
