// Command bench measures what the gateway costs, beside a small Python proxy (FastAPI and httpx) that
// captures the same and syncs it likewise, and beside the standard library's proxy, which keeps nothing and
// shows what forwarding alone costs. All forward to one mock engine, in one run, by turns; what counts is
// the CPU time of each proxy's own process, and the ratios.
//
//	go run ./internal/gateway/bench -python venv/bin/python   # with fastapi, httpx and uvicorn[standard] installed
//	go run ./internal/gateway/bench                           # without the Python one
//	go run ./internal/gateway/bench -beside FILE -rounds 10   # with the gateway of another build of this command
//	go run ./internal/gateway/bench -soak 10m                 # its memory under steady load
package main

import (
	"cmp"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
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

	python := flag.String(
		"python",
		"",
		"a Python with fastapi, httpx and uvicorn; empty: no comparison with a Python proxy",
	)
	soak := flag.Duration("soak", 0, "watch the gateway's memory for that long instead")
	only := flag.String("only", "", "the loads whose names contain this; empty: all")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the gateway's process to this file")
	beside := flag.String("beside", "", "another build of this command, whose gateway is measured too")
	rounds := flag.Int(
		"rounds",
		1,
		"rounds of each load, with the proxies in turn; with several, the medians are printed last",
	)

	flag.Parse()

	if *soak > 0 {
		exit(runSoak(*soak))
		return
	}

	exit(run(options{python: *python, beside: *beside, only: *only, profile: *profile, rounds: *rounds}))
}

// options of a comparison.
type options struct {
	python, beside, only, profile string
	rounds                        int
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	dir, err := os.MkdirTemp("", "rolloutd-bench-")
	if err != nil {
		return err
	}
	// only a scratch folder
	defer func() { _ = os.RemoveAll(dir) }()

	engine := httptest.NewServer(newEngine())
	defer engine.Close()

	var subjects []*subject
	defer func() {
		for _, s := range subjects {
			s.stop()
		}
	}()

	for _, start := range o.starts(dir, engine.URL) {
		s, err := start()
		if err != nil {
			return err
		}

		subjects = append(subjects, s)
	}

	return compare(subjects, o.only, o.rounds)
}

// starts returns the start functions of the measured proxies, the gateway's first.
func (o options) starts(dir, engine string) []func() (*subject, error) {
	list := []func() (*subject, error){func() (*subject, error) {
		return startGateway("gateway", os.Args[0], filepath.Join(dir, "gateway"), engine, o.profile)
	}}
	if o.beside != "" {
		list = append(list, func() (*subject, error) {
			return startGateway("beside", o.beside, filepath.Join(dir, "beside"), engine, "")
		})
	}

	list = append(list, func() (*subject, error) { return startBare(engine) })
	if o.python != "" {
		list = append(list, func() (*subject, error) { return startPython(o.python, dir, engine) })
	}

	return list
}

// compare runs each load whose name contains only through each proxy, that many rounds, with the proxies in turn.
func compare(subjects []*subject, only string, rounds int) error {
	fmt.Printf("%-46s %-8s %12s %9s %9s %8s\n", "load", "proxy", "CPU", "wall", "memory", "failed")

	for _, l := range loads() {
		if !strings.Contains(l.name, only) {
			continue
		}

		all := make([][]measured, len(subjects))
		for range rounds {
			for i, s := range subjects {
				m, err := l.measure(s)
				if err != nil {
					return err
				}

				all[i] = append(all[i], m)
				m.print(l.name, s.name, all[0][len(all[i])-1].cpu)
			}
		}

		if rounds > 1 {
			for i, s := range subjects {
				medianOf(all[i]).print("median: "+l.name, s.name, medianOf(all[0]).cpu)
			}
		}
	}

	return nil
}

// medianOf returns the measurement with the median CPU.
func medianOf(all []measured) measured {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b measured) int { return cmp.Compare(a.cpu, b.cpu) })
	return sorted[len(sorted)/2]
}

// print prints a measurement of a load, and its ratio to the gateway's CPU.
func (m measured) print(load, subject string, gateway time.Duration) {
	fmt.Printf(
		"%-46s %-8s %9.1f µs %7.1f s %6d MB %8d",
		load,
		subject,
		micros(m.cpu),
		m.wall.Seconds(),
		m.memory>>20,
		m.failed,
	)

	if m.cpu != gateway {
		fmt.Printf("   %.2f times the gateway's CPU", float64(m.cpu)/float64(gateway))
	}

	fmt.Println()
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
