package gateway_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// childFolder, in the environment, makes the test binary a gateway on that folder, to be killed.
const childFolder = "ROLLOUTD_TEST_GATEWAY"

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

// child serves until it is killed, or until the test that started it is gone. It prints where its admin API is, and then
// each model channel. For each byte of input it prints the CPU time it used.
func child(dir string) error {
	key, err := seal.LoadOrCreate(dir + "/key")
	if err != nil {
		return err
	}
	srv, err := gateway.New(gateway.Options{Dir: dir + "/gateway", Key: key, Dialer: &channels{open: map[string]*httptest.Server{}, tell: tell}})
	if err != nil {
		return err
	}
	admin := httptest.NewServer(srv.Handler())
	defer admin.Close()
	tell("admin", admin.URL)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop() // stdin ends with its other side
		for buf := make([]byte, 1); ; {
			if _, err := os.Stdin.Read(buf); err != nil {
				return
			}
			tell("cpu", cpuTime().String())
		}
	}()
	return srv.Run(ctx)
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func tell(what, url string) { fmt.Println(what, url) }
