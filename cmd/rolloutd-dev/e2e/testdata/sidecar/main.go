// Command sidecar is the service of a task in a test. It serves HTTP at the address ADDR, or does what its first
// argument says.
package main

import (
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

func main() {
	argument := ""
	if len(os.Args) > 1 {
		argument = os.Args[1]
	}

	switch argument {
	case "check":
		check()
	case "seed":
		exit(os.WriteFile("/var/seed/word", []byte(os.Getenv("WORD")+"\n"), 0o644))
	case "die":
		fmt.Fprintln(os.Stderr, "no license found")
		os.Exit(3)
	default:
		exit(serve())
	}
}

// check is the health check.
func check() {
	res, err := http.Get("http://" + os.Getenv("ADDR") + "/ready")
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("not ready: %s", res.Status)
	}

	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Exit(0)
}

// serve counts requests to /count, tells the word of the volume, and ends at a request to /end.
func serve() error {
	var counted atomic.Int64

	http.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if os.Getenv("NEVER") != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/word", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "/data/word") })
	http.HandleFunc("/count", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, counted.Add(1)) })
	http.HandleFunc("/end", func(http.ResponseWriter, *http.Request) {
		fmt.Println("asked to end")
		time.AfterFunc(0, func() { os.Exit(7) })
	})

	fmt.Println("serving at", os.Getenv("ADDR"))

	return http.ListenAndServe(os.Getenv("ADDR"), nil)
}
