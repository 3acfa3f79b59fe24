// Command bench measures what the gateway costs, beside a small Python proxy (FastAPI and httpx) that captures the same and
// syncs it likewise, and beside the standard library's proxy, which keeps nothing and shows what forwarding alone costs. All forward
// to one mock engine, in one run, by turns; what counts is the CPU time of each proxy's own process, and the ratios.
//
//	go run ./internal/gateway/bench -python venv/bin/python   # with fastapi, httpx and uvicorn[standard] installed
//	go run ./internal/gateway/bench                           # without the Python one
//	go run ./internal/gateway/bench -soak 10m                 # its memory under steady load
package main

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"time"
)

func main() {
	if dir := os.Getenv(gatewayFolder); dir != "" {
		exit(gatewayProcess(dir))
		return
	}
	if engine := os.Getenv(bareUpstream); engine != "" {
		exit(bareProcess(engine))
		return
	}
	python := flag.String("python", "", "a Python that has fastapi, httpx and uvicorn; empty: no comparison with that")
	soak := flag.Duration("soak", 0, "instead: watch the gateway's memory for so long")
	only := flag.String("only", "", "the loads whose names contain this; empty: all")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the gateway's process to this file")
	flag.Parse()
	exit(run(*python, *only, *profile, *soak))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(python, only, profile string, soakFor time.Duration) error {
	dir, err := os.MkdirTemp("", "rolloutd-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // only a scratch folder
	engine := httptest.NewServer(newEngine())
	defer engine.Close()
	g, err := startGateway(dir, engine.URL, profile)
	if err != nil {
		return err
	}
	defer g.stop()
	if soakFor > 0 {
		return soak(g, soakFor)
	}
	bare, err := startBare(engine.URL)
	if err != nil {
		return err
	}
	defer bare.stop()
	subjects := []*subject{g, bare}
	if python != "" {
		p, err := startPython(python, dir, engine.URL)
		if err != nil {
			return err
		}
		defer p.stop()
		subjects = append(subjects, p)
	}
	return compare(subjects, only)
}

// compare runs each load whose name contains only through each proxy.
func compare(subjects []*subject, only string) error {
	fmt.Printf("%-38s %-8s %12s %9s %9s %8s\n", "load", "proxy", "CPU", "wall", "memory", "failed")
	for _, l := range loads() {
		if !strings.Contains(l.name, only) {
			continue
		}
		var first time.Duration
		for i, s := range subjects {
			m, err := l.measure(s)
			if err != nil {
				return err
			}
			fmt.Printf("%-38s %-8s %9.1f µs %7.1f s %6d MB %8d", l.name, s.name, micros(m.cpu), m.wall.Seconds(), m.memory>>20, m.failed)
			if i == 0 {
				first = m.cpu
			} else {
				fmt.Printf("   %.1f times the gateway's CPU", float64(m.cpu)/float64(first))
			}
			fmt.Println()
		}
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
