package nomad

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// failed wraps an error of Nomad in its kind, and names the setting that solves it, if any. A permanent
// refusal is Unauthorized or Invalid.
func (c *Client) failed(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}

	kind := fault.Unavailable

	var answer api.UnexpectedResponseError
	if errors.As(err, &answer) && answer.HasStatusCode() {
		code, body := answer.StatusCode(), strings.TrimSpace(answer.Body())
		kind = kindOf(code, body)
		err = fmt.Errorf("%d: %.500s", code, body)
	} else if handshake(err) {
		kind = fault.Invalid
	}

	if hint := c.hint(kind, err); hint != "" {
		err = fmt.Errorf("%w (%s)", err, hint)
	}

	return fault.Wrap(kind, err, format, args...)
}

// kindOf is the kind of a response.
func kindOf(code int, body string) fault.Kind {
	switch {
	case code == http.StatusForbidden || code == http.StatusUnauthorized:
		return fault.Unauthorized
	case code >= 400 && code < 500 && code != http.StatusTooManyRequests && code != http.StatusNotFound,
		unknownPlace(body):
		return fault.Invalid
	default:
		return fault.Unavailable
	}
}

// unknownPlace reports whether Nomad answered that it has no such region or namespace, which it does with status 500.
func unknownPlace(body string) bool {
	return strings.Contains(body, "No path to region") || strings.Contains(body, "nonexistent namespace")
}

// handshake reports whether one side refused the other's certificate, or does not speak TLS.
func handshake(err error) bool {
	var server *tls.CertificateVerificationError

	return errors.As(err, &server) || refusedByServer(err) ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// refusedByServer reports whether the server ended the handshake with an alert. Its type is not exported.
func refusedByServer(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// hint names the settings that cause an error.
func (c *Client) hint(kind fault.Kind, err error) string {
	var (
		name      x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
	)

	text := err.Error()
	switch {
	case kind == fault.Unauthorized:
		return fmt.Sprintf("NOMAD_TOKEN must be a token with read-job and submit-job in namespace %s", c.namespace())
	case unknownPlace(text):
		return fmt.Sprintf("region is %q, namespace is %q", c.spec.Region, c.namespace())
	case errors.As(err, &name):
		return "NOMAD_TLS_SERVER_NAME must be a name in Nomad's certificate, such as server.REGION.nomad"
	case errors.As(err, &authority):
		return "NOMAD_CACERT must be the authority of Nomad's certificate"
	case errors.As(err, &invalid):
		return "Nomad's certificate is not valid"
	case refusedByServer(err):
		return "NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY must be a valid certificate of Nomad's authority"
	case strings.Contains(text, "HTTP response to HTTPS client"),
		strings.Contains(text, "HTTP request to an HTTPS server"):
		return fmt.Sprintf("nomad_address is %s", c.spec.NomadAddress)
	default:
		return ""
	}
}

func (c *Client) namespace() string {
	if c.spec.Namespace == "" {
		return api.DefaultNamespace
	}

	return c.spec.Namespace
}
