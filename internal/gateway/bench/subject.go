package main

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
)

//go:embed proxy.py
var proxyScript []byte

// subject is a measured proxy in a process of its own.
type subject struct {
	name string

	// URLs of its /v1, one for each sandbox
	urls  []string
	cmd   *exec.Cmd
	stdin io.Closer

	// Of the gateway alone.
	admin  *gatewayapi.Client
	lines  *bufio.Scanner
	engine string

	// number of those opened for conversations
	rollouts int
}

func (s *subject) stop() {
	// the gateway ends by itself and writes its profile
	_ = s.stdin.Close()

	ended := time.AfterFunc(10*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer ended.Stop()

	_ = s.cmd.Wait()
}

func (s *subject) start() (err error) {
	s.cmd.Stderr = os.Stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}

	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}

	s.lines = bufio.NewScanner(out)

	return s.cmd.Start()
}

func (s *subject) line() (string, error) {
	if !s.lines.Scan() {
		return "", fmt.Errorf("%s ended", s.name)
	}

	return s.lines.Text(), nil
}

// startGateway starts a gateway on a folder, from a build of this command.
func startGateway(name, build, dir, engine, profile string) (*subject, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	key, err := seal.LoadOrCreate(filepath.Join(dir, "key"))
	if err != nil {
		return nil, err
	}

	s := &subject{name: name, cmd: exec.Command(build), engine: engine}

	s.cmd.Env = append(os.Environ(), gatewayFolder+"="+dir, gatewayProfile+"="+profile)
	if err := s.start(); err != nil {
		return nil, err
	}

	if err := s.openAll(key); err != nil {
		s.stop()
		return nil, err
	}

	return s, nil
}

// sandboxes is the number of routes that share the load: a gateway bounds the requests in flight of one sandbox.
const sandboxes = 20

func (s *subject) openAll(key seal.Key) error {
	admin, err := s.line()
	if err != nil {
		return err
	}

	s.admin = gatewayapi.NewClient(admin, key)
	for n := range sandboxes {
		url, err := s.open(fmt.Sprintf("bench-%d.1", n), "")
		if err != nil {
			return err
		}

		s.urls = append(s.urls, url)
	}

	return nil
}

// open opens a route of the gateway, and returns the agent's base URL.
func (s *subject) open(id string, continues rollout.Continuation) (string, error) {
	err := s.admin.Open(context.Background(), gatewayapi.Route{
		ID: id, RolloutID: "bench", Attempt: 1, SandboxID: id, Capture: true,
		Model: rollout.Model{
			BaseURL:      s.engine + "/v1",
			Name:         "m",
			Logprobs:     true,
			TopLogprobs:  5,
			TokenIDs:     true,
			MaxTokensCap: 4096,
			Continuation: continues,
		},
		Limits: rollout.Limits{Call: 10 * time.Minute},
	})
	if err != nil {
		return "", err
	}

	url, err := s.line()

	return url + "/v1", err
}

func startPython(python, dir, engine string) (*subject, error) {
	script := filepath.Join(dir, "proxy.py")
	if err := os.WriteFile(script, proxyScript, 0o600); err != nil {
		return nil, err
	}
	// to find a free port
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	at := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		return nil, err
	}

	s := &subject{name: "python", urls: []string{"http://" + at.String() + "/v1"}, cmd: exec.Command(python, script)}

	s.cmd.Env = append(
		os.Environ(),
		"UPSTREAM="+engine+"/v1",
		"OUT="+filepath.Join(dir, "python.jsonl"),
		"PORT="+strconv.Itoa(at.Port),
	)
	if err := s.start(); err != nil {
		return nil, err
	}

	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		res, err := http.Get(s.urls[0] + "/models")
		if err == nil {
			return s, res.Body.Close()
		}

		if time.Since(began) > 30*time.Second {
			s.stop()
			return nil, fmt.Errorf("the Python proxy does not answer: %w", err)
		}
	}
}

// cpu returns the CPU time of the process, in steps of 10 ms.
func (s *subject) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}

	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))

	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}

	system, err := strconv.Atoi(fields[12])

	return time.Duration(user+system) * 10 * time.Millisecond, err
}

// memory returns the resident memory of the process, in bytes.
func (s *subject) memory() (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}

	pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)

	return pages * int64(os.Getpagesize()), err
}
