package usage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
)

const (
	askTime = 30 * time.Second

	// bytes
	maxAnswer = 64 << 10
)

// Read asks the sandboxd that dial reaches for the usage, on a connection of its own.
func Read(ctx context.Context, dial func(context.Context) (net.Conn, error)) (driver.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sandboxd"+Path, nil)
	if err != nil {
		return driver.NoUsage(), err
	}

	res, err := (&http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}).RoundTrip(req)
	if err != nil {
		return driver.NoUsage(), err
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return driver.NoUsage(), fmt.Errorf("sandboxd answers %s", res.Status)
	}

	var u driver.Usage
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&u); err != nil {
		return driver.NoUsage(), fmt.Errorf("usage: %w", err)
	}

	return u, nil
}
