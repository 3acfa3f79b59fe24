package network

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/text"
)

const (
	// bounds the arrival of a request
	headerTime = 30 * time.Second

	// bytes
	maxHeader = 64 << 10

	// bounds the look-up of the name and the connection
	dialTime = 30 * time.Second
)

// ProxyOptions of a Proxy.
type ProxyOptions struct {
	// hosts that the task may reach
	Allow egress.AllowList

	// hosts that the operator lets any task reach
	Max egress.AllowList
	// Addresses are the special addresses (loopback, private) that the operator allows; the zero value:
	// none, under any name.
	Addresses egress.Policy
	// Record gets an entry for each connection when it has ended. It is called by several goroutines.
	Record func(ProxyEntry)
	// Idle ends a connection without traffic; 0: 10 minutes.
	Idle time.Duration
}

// ProxyEntry is one connection, or one that was refused.
type ProxyEntry struct {
	// when it began
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Host   string    `json:"host"`
	Port   uint16    `json:"port"`

	// address that the name was resolved to
	Address string `json:"address,omitempty"`

	// why it was refused; empty: it was not
	Refused string `json:"refused,omitempty"`

	// why it failed
	Error string `json:"error,omitempty"`

	// bytes to the host
	Sent int64 `json:"sent_bytes"`

	// bytes from the host
	Received  int64   `json:"received_bytes"`
	DurationS float64 `json:"duration_s"`
}

// Proxy serves connections of one sandbox. It is safe for concurrent use.
type Proxy struct{ o ProxyOptions }

// NewProxy makes a Proxy.
func NewProxy(o ProxyOptions) *Proxy {
	if o.Idle == 0 {
		o.Idle = 10 * time.Minute
	}

	return &Proxy{o}
}

// Serve reads one request of a connection and answers it: CONNECT, or a request whose URL is absolute. It
// returns when the connection may be closed; ctx ends it.
func (p *Proxy) Serve(ctx context.Context, conn io.ReadWriteCloser) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()

	headerTimer := time.AfterFunc(headerTime, cancel)
	head := &io.LimitedReader{R: conn, N: maxHeader}
	in := bufio.NewReader(head)

	req, err := http.ReadRequest(in)
	if !headerTimer.Stop() || err != nil {
		_ = answer(conn, http.StatusBadRequest,
			"this is an HTTP proxy: the request must be CONNECT host:port, or one with an http:// URL")

		return
	}
	// the header has been read
	head.N = 1 << 62

	e := ProxyEntry{Time: time.Now(), Method: text.HeadUTF8(req.Method, 20)}
	defer func() {
		e.DurationS = time.Since(e.Time).Seconds()
		p.o.Record(e)
	}()

	if e.Host, e.Port, err = target(req); err != nil {
		e.Refused = err.Error()
		_ = answer(conn, http.StatusBadRequest, e.Refused)

		return
	}

	if e.Refused = p.refuse(e.Host, e.Port); e.Refused != "" {
		_ = answer(conn, http.StatusForbidden, e.Refused)
		return
	}

	up, err := p.dial(ctx, &e)
	if err != nil {
		_ = answer(conn, http.StatusBadGateway, e.Refused+e.Error)
		return
	}
	defer up.Close()

	defer context.AfterFunc(ctx, func() { _ = up.Close() })()

	counted := &hostConn{Conn: up, atMost: p.o.Idle, idle: time.AfterFunc(p.o.Idle, cancel)}
	defer counted.idle.Stop()
	defer func() { e.Sent, e.Received = counted.sent.Load(), counted.received.Load() }()

	if req.Method == http.MethodConnect {
		tunnel(cancel, in, conn, counted)
	} else if err := forward(ctx, req, conn, counted); err != nil {
		e.Error = err.Error()
	}
}

// target is the host and port that a request is for.
func target(req *http.Request) (string, uint16, error) {
	at := req.URL.Host
	port := "80"

	switch {
	case req.Method == http.MethodConnect:
		at, port = req.Host, "443"
	case !req.URL.IsAbs() || req.URL.Scheme != "http" || at == "":
		return "", 0, errors.New("the request must be CONNECT host:port, or one with an http:// URL")
	}

	host, given, err := net.SplitHostPort(at)
	if err == nil {
		port = given
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(at, "["), "]")
	}

	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == "" || len(host) > 253 {
		return "", 0, fmt.Errorf("the target must be a host with a port from 1 to 65535, got %.300q", at)
	}

	return egress.Canonical(host), uint16(n), nil
}

// refuse says why a host must not be reached; "": it may.
func (p *Proxy) refuse(host string, port uint16) string {
	switch {
	case !p.o.Allow.Allows(host, port):
		return fmt.Sprintf("%s:%d is not in the task's network for this phase", host, port)
	case !p.o.Max.Allows(host, port):
		return fmt.Sprintf("%s:%d is not in the operator's sandbox.network.max", host, port)
	}

	return ""
}

// dial connects. Addresses are checked after the name was resolved, and the connection goes to the address
// that was checked.
func (p *Proxy) dial(ctx context.Context, e *ProxyEntry) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()

	at := net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	if err := p.o.Addresses.CheckHost(e.Host, e.Port); err != nil {
		e.Refused = err.Error()
		return nil, err
	}

	up, err := p.o.Addresses.Dial(ctx, "tcp", at)
	switch {
	case fault.Is(err, fault.Invalid):
		e.Refused = text.HeadUTF8(err.Error(), 300)
	case err != nil:
		e.Error = text.HeadUTF8(err.Error(), 300)
	default:
		e.Address = up.RemoteAddr().String()
	}

	return up, err
}

func answer(w io.Writer, status int, why string) error {
	why += "\n"
	_, err := fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(why), why)

	return err
}
