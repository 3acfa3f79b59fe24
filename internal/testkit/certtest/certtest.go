// Package certtest makes certificates for tests of TLS.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority issues certificates. Its own certificate is ca.pem in its folder.
type Authority struct {
	Dir string

	template *x509.Certificate
	key      *ecdsa.PrivateKey
}

// New makes an authority with its files in dir.
func New(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	a := &Authority{Dir: dir, template: template("authority of "+filepath.Base(dir), time.Now().Add(24*time.Hour))}
	a.template.IsCA = true
	a.template.KeyUsage |= x509.KeyUsageCertSign

	var err error

	a.key, err = a.sign(a.template, "ca.pem", "ca-key.pem")

	return a, err
}

// Issue writes a certificate for 127.0.0.1 and the names, and its key, to files of the authority's folder.
// Servers and clients can use it for a day.
func (a *Authority) Issue(cert, key string, names ...string) error {
	return a.issue(cert, key, time.Now().Add(24*time.Hour), names)
}

// IssueExpired is Issue for a certificate that is not valid any more.
func (a *Authority) IssueExpired(cert, key string, names ...string) error {
	return a.issue(cert, key, time.Now().Add(-time.Hour), names)
}

// File is the path of a file of the authority's folder.
func (a *Authority) File(name string) string { return filepath.Join(a.Dir, name) }

func (a *Authority) issue(cert, key string, end time.Time, names []string) error {
	t := template(cert, end)
	t.IPAddresses, t.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, names
	_, err := a.sign(t, cert, key)

	return err
}

func template(name string, end time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             end.Add(-48 * time.Hour),
		NotAfter:              end,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// sign makes a key and a certificate that the authority signs; the authority's own is self-signed.
func (a *Authority) sign(t *x509.Certificate, certFile, keyFile string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}

	signer := a.key
	if t == a.template {
		signer = key
	}

	cert, err := x509.CreateCertificate(rand.Reader, t, a.template, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}

	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}

	return key, errors.Join(a.write(certFile, "CERTIFICATE", cert), a.write(keyFile, "EC PRIVATE KEY", private))
}

func (a *Authority) write(name, kind string, der []byte) error {
	return os.WriteFile(a.File(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
