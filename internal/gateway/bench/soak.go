package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

func runSoak(long time.Duration) error {
	dir, err := os.MkdirTemp("", "rolloutd-bench-")
	if err != nil {
		return err
	}
	// only a scratch folder
	defer func() { _ = os.RemoveAll(dir) }()

	engine := httptest.NewServer(newEngine())
	defer engine.Close()

	g, err := startGateway("gateway", os.Args[0], dir, engine.URL, "")
	if err != nil {
		return err
	}
	defer g.stop()

	return soak(g, long)
}

// soak runs rollouts through the gateway, some in parallel, and prints its memory, which should stay constant.
func soak(g *subject, long time.Duration) error {
	const at, lines = 16, 10

	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()

	agents := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: at}}
	// The gateway prints the address of a new route on its one standard output, so routes open one at a time.
	var (
		opening          sync.Mutex
		rollouts, failed atomic.Int64
		wg               sync.WaitGroup
	)
	for range at {
		wg.Go(func() {
			for ctx.Err() == nil {
				failed.Add(playRollout(g, agents, &opening, rollouts.Add(1)))
			}
		})
	}

	for n := 1; n <= lines; n++ {
		time.Sleep(long / lines)

		memory, err := g.memory()
		if err != nil {
			return err
		}

		cpu, err := g.cpu()
		if err != nil {
			return err
		}

		fmt.Printf(
			"after %-8s %5d rollouts %6.1f s of CPU %5d MB, %d failed\n",
			long/lines*time.Duration(n),
			rollouts.Load(),
			cpu.Seconds(),
			memory>>20,
			failed.Load(),
		)
	}

	wg.Wait()

	return nil
}

// playRollout opens a route, makes calls with a growing prompt, closes the route, and returns the number of
// failed calls.
func playRollout(g *subject, agents *http.Client, opening *sync.Mutex, n int64) (failed int64) {
	id := fmt.Sprintf("soak-%d.1", n)

	opening.Lock()
	url, err := g.open(id, "")
	opening.Unlock()

	if err != nil {
		return 1
	}

	for turn := range 20 {
		l := load{
			stream: true,
			words:  500 * (turn + 1),
			work:   work{tokens: 50, prompt: 500 * (turn + 1), pause: 5 * time.Millisecond},
		}
		if !call(agents, url, l.body()) {
			failed++
		}
	}

	if g.admin.Close(context.Background(), id) != nil {
		failed++
	}

	return failed
}
