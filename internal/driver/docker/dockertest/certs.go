package dockertest

import (
	"errors"

	"github.com/rolloutd/rolloutd/internal/testkit/certtest"
)

// writeCerts makes a certificate authority, and certificates of the daemon and its clients, with the file
// names of Docker's clients.
func writeCerts(dir string) error {
	ca, err := certtest.New(dir)
	if err != nil {
		return err
	}

	return errors.Join(ca.Issue("server.pem", "server-key.pem"), ca.Issue("cert.pem", "key.pem"))
}
