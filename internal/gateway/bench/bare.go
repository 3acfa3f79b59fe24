package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
)

// bareUpstream is the environment variable that makes this binary a plain proxy to that address: the
// standard library's, which keeps nothing. It shows the cost of forwarding alone.
const bareUpstream = "ROLLOUTD_BENCH_BARE"

// bareProcess prints its address and serves until its standard input ends.
func bareProcess(upstream string) error {
	to, err := url.Parse(upstream)
	if err != nil {
		return err
	}

	srv := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,                         // each token at once
		ErrorLog:      log.New(io.Discard, "", 0), // the caller counts failures
		Transport:     &http.Transport{MaxIdleConnsPerHost: 2048, DisableCompression: true},
	})
	defer srv.Close()

	fmt.Println(srv.URL)

	_, _ = io.Copy(io.Discard, os.Stdin)

	return nil
}

func startBare(engine string) (*subject, error) {
	s := &subject{name: "bare Go", cmd: exec.Command(os.Args[0])}

	s.cmd.Env = append(os.Environ(), bareUpstream+"="+engine)
	if err := s.start(); err != nil {
		return nil, err
	}

	url, err := s.line()
	if err != nil {
		s.stop()
		return nil, err
	}

	s.urls = []string{url + "/v1"}

	return s, nil
}
