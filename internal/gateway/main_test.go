package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// childFolder is the environment variable that makes the test binary a gateway on the named folder, which
// the test kills.
const childFolder = "ROLLOUTD_TEST_GATEWAY"

// childMark is the interval at which that gateway marks that it is alive.
const childMark = 100 * time.Millisecond

func TestMain(m *testing.M) {
	if dir := os.Getenv(childFolder); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}

		return
	}

	os.Exit(m.Run())
}

// child serves until it is killed or until the test that started it ends. It prints the address of its
// admin API and then each model channel.
func child(dir string) error {
	key, err := seal.LoadOrCreate(dir + "/key")
	if err != nil {
		return err
	}

	srv, err := gateway.New(gateway.Options{
		Dir:    dir + "/gateway",
		Key:    key,
		Egress: loopback(),
		Dialer: &channels{open: map[string]*httptest.Server{}, tell: printAddress},
		Mark:   childMark,
	})
	if err != nil {
		return err
	}

	api := gatewaytest.NewServer(admin.New(srv, admin.Options{Key: key}).Handler())
	defer api.Close()

	printAddress("admin", api.URL)

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		// stdin ends with the test
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()

	return srv.Run(ctx)
}

func printAddress(what, url string) { fmt.Println(what, url) }
