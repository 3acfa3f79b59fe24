package dockertest

import (
	"errors"

	"github.com/rolloutd/rolloutd/internal/certtest"
)

// writeCerts makes an authority, and a certificate of it for the daemon and for its clients, by the names that Docker's clients know.
func writeCerts(dir string) error {
	ca, err := certtest.New(dir)
	if err != nil {
		return err
	}
	return errors.Join(ca.Issue("server.pem", "server-key.pem"), ca.Issue("cert.pem", "key.pem"))
}
