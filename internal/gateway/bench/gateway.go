package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
	"github.com/rolloutd/rolloutd/internal/host/timerslack"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// gatewayFolder is the environment variable that makes this binary a gateway on that folder.
const gatewayFolder = "ROLLOUTD_BENCH_GATEWAY"

// gatewayProfile is the environment variable with the file for its CPU profile; empty: none.
const gatewayProfile = "ROLLOUTD_BENCH_PROFILE"

// gatewayProcess serves until its standard input ends. It prints the address of its admin API, then that of
// each model channel.
func gatewayProcess(dir string) error {
	// as the gateway's role does
	debug.SetGCPercent(400)

	if err := timerslack.Set(timerslack.Daemon); err != nil {
		return err
	}

	key, err := seal.LoadOrCreate(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}

	local, err := egress.Parse([]string{"127.0.0.0/8"})
	if err != nil {
		return err
	}

	srv, err := gateway.New(gateway.Options{
		Dir:    filepath.Join(dir, "gateway"),
		Key:    key,
		Egress: local,
		Dialer: listener{},
	})
	if err != nil {
		return err
	}

	admin := gatewaytest.NewServer(admin.New(srv, admin.Options{Key: key}).Handler())
	defer admin.Close()

	fmt.Println(admin.URL)

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()

		_, _ = io.Copy(io.Discard, os.Stdin)
	}()

	if file := os.Getenv(gatewayProfile); file != "" {
		out, err := os.Create(file)
		if err != nil {
			return err
		}
		// after the profile is written
		defer func() { _ = out.Close() }()

		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}

		defer pprof.StopCPUProfile()
	}

	return srv.Run(ctx)
}

// listener is a Dialer that serves each sandbox's model channel on a listener of its own, so that both
// proxies are called in the same way.
type listener struct{}

func (listener) ServeModel(ctx context.Context, _ string, h http.Handler, served func()) error {
	srv := httptest.NewServer(h)

	served()
	fmt.Println(srv.URL)
	<-ctx.Done()
	srv.CloseClientConnections()
	srv.Close()

	return nil
}
