package sandboxd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/rolloutd/rolloutd/internal/driver/usage"
	"github.com/rolloutd/rolloutd/internal/sandboxd/files"
	"github.com/rolloutd/rolloutd/internal/sandboxd/modelchannel"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/pty"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Options configures a Server; only Expired is required.
type Options struct {
	SandboxID string
	Version   string
	// Lease is the time after which the sandbox ends without a renewal; 0: never.
	Lease time.Duration
	// Expired is called once, when the lease has ended; it does not return.
	Expired func()
	// TreeLimit bounds the file contents of one tar in bytes, in each direction; 0: 4 GiB.
	TreeLimit int64
	// Writable lists the absolute folders below which processes of the sandbox can write; nil: the default
	// ones. Links are followed only outside of them, where they are the image's.
	Writable []string
	// SeparateUsers gives the agent and the verifier the user ids wire.AgentID and
	// wire.VerifierID; see Separate. Without it every process
	// runs as the user of sandboxd.
	SeparateUsers bool
	// Agent is the agent's user if users are separate; Env is the base environment of processes.
	Agent process.Agent
	Env   wire.BaseEnv
	// Workdir is where the workdir is in the home; "": it has its own name there.
	Workdir wire.Workdir
	// StartIn is where processes of the workdir start; "": in the workdir by its name in the home.
	StartIn wire.Workdir
	// Program is the sandboxd binary that starts processes; "": this process's own.
	Program string
	// Cgroups are open files by which every started process enters its cgroups: it writes "0" to each.
	Cgroups []*os.File
	// Cgroup is the open folder of a version 2 cgroup into which processes are forked instead, unless it is
	// full; nil: none.
	Cgroup *os.File
	// Reclaim is the open file that swaps out memory of the processes while one of them is stopped; nil: none.
	Reclaim *os.File
	// Usage are the sources of the sandbox's usage.
	Usage usage.Sources
	// Place is where the graded work runs, in a verifier's sandbox; nil: run-as-agent starts programs
	// beside the verifier's.
	Place *Place
	// NetworkAddr is the address of the proxy for processes while the network channel is open; "": wire.NetworkAddr.
	NetworkAddr string
	Logger      *slog.Logger
}

// Server is one sandboxd.
type Server struct {
	info      wire.Info
	lease     *lease
	processes *process.Table
	exec      *execs
	pty       *pty.Sessions
	model     *modelchannel.Model
	network   *forwarder
	services  *services
	places    files.Places
	workdir   wire.Workdir
	startIn   wire.Workdir
	turn      turn
	treeLimit int64
	usage     usage.Sources
	ports     http.Handler

	// changesSince separates what the driver wrote from what processes of the sandbox change. Run sets it before it
	// serves.
	changesSince time.Time

	// this process serves run-as-agent
	runsWork bool
	log      *slog.Logger
}

// New returns a Server. It becomes the reaper of this process's children: Run must be running before the
// first process starts.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	if o.Writable == nil {
		o.Writable = []string{"/home", "/tmp", "/run", "/dev/shm", "/var/tmp", "/verifier"}
	}

	o.Program = cmp.Or(o.Program, "/proc/self/exe")
	table := process.New(process.Options{
		SeparateUsers: o.SeparateUsers, Agent: o.Agent, StartIn: o.StartIn, Env: o.Env, Program: o.Program,
		Cgroups: o.Cgroups, Cgroup: o.Cgroup, Reclaim: o.Reclaim, Logger: o.Logger,
		Spared: o.Place.pid(), Work: o.Place.shared(), NoExec: o.Place.noExec(),
	})

	return &Server{
		info: wire.Info{
			Version: o.Version, SandboxID: o.SandboxID, StartedAt: time.Now(), SeparateUsers: o.SeparateUsers,
			Shared: o.Place.shared(),
		},
		lease:     newLease(o.Lease, o.Expired),
		processes: table,
		exec:      newExecs(table),
		pty:       pty.New(table),
		model:     modelchannel.New(o.Logger, table),
		network:   newForwarder(cmp.Or(o.NetworkAddr, wire.NetworkAddr), o.Logger),
		services:  newServices(o.Logger),
		places:    o.Writable,
		workdir:   o.Workdir,
		startIn:   o.StartIn,
		turn:      newTurn(),
		treeLimit: cmp.Or(o.TreeLimit, 4<<30),
		usage:     o.Usage,
		runsWork:  o.SeparateUsers && o.Place == nil,
		ports:     newPorts(table),
		log:       o.Logger,
	}
}

// Run serves the control connections of control and the agent's model calls of model, until ctx ends or a
// listener breaks. It closes both.
func (s *Server) Run(ctx context.Context, control, model net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.lease.stop()

	since, err := files.Mark()
	if err != nil {
		return errors.Join(fmt.Errorf("mark the start of changes: %w", err), control.Close(), model.Close())
	}

	s.changesSince = since

	model = netutil.LimitListener(model, modelchannel.MaxConnections)
	failed := make(chan error, 4)
	servers := []*http.Server{s.controlServer(), s.modelServer()}

	for i, l := range []net.Listener{control, model} {
		go func() { failed <- servers[i].Serve(l) }()
	}

	go func() { failed <- s.processes.Run(ctx) }()
	go func() { failed <- s.serveRunAs(ctx) }()

	running := 4

	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}

	cancel()

	for _, srv := range servers {
		err = errors.Join(err, srv.Close())
	}

	for range running {
		<-failed
	}

	s.model.Close()
	s.network.Close()
	s.services.Close()

	return err
}

// serveRunAs serves run-as-agent where no place of the work does.
func (s *Server) serveRunAs(ctx context.Context) error {
	if !s.runsWork {
		<-ctx.Done()
		return ctx.Err()
	}

	l, err := process.ListenRunAs()
	if err != nil {
		return err
	}

	return s.processes.ServeRunAs(ctx, l)
}

func (s *Server) controlServer() *http.Server {
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// modelServer serves the agent. It does not log the agent's errors, with which the agent could fill the log.
func (s *Server) modelServer() *http.Server {
	return &http.Server{
		Handler:           s.model,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    modelchannel.MaxHeader,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
}

// Handler returns the handler of the control API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/info", s.getInfo)
	mux.HandleFunc("GET "+usage.Path, s.getUsage)
	mux.HandleFunc("POST /v1/lease", s.postLease)
	mux.HandleFunc("PUT /v1/processes/{name}", s.turn.awaitTurn(s.putProcess))
	mux.HandleFunc("GET /v1/processes/{name}", s.getProcess)
	mux.HandleFunc("GET /v1/processes/{name}/log", s.getLog)
	mux.HandleFunc("POST /v1/processes/{name}/kill", s.postKill)
	mux.HandleFunc("POST /v1/exec/{id}", s.postExec)
	mux.HandleFunc("DELETE /v1/exec/{id}", s.deleteExec)
	mux.HandleFunc("POST /v1/pty/{name}/{id}", s.postPTY)
	mux.HandleFunc("DELETE /v1/pty/{name}", s.deletePTY)
	mux.HandleFunc("POST /v1/kill-all", s.killBefore(s.turn.awaitTurn(s.postKillAll)))
	mux.HandleFunc("POST /v1/freeze", s.turn.awaitTurn(s.postFreeze))
	mux.HandleFunc("POST /v1/thaw", s.turn.awaitTurn(s.postThaw))
	mux.HandleFunc("GET /v1/listeners", s.getListeners)
	mux.HandleFunc("POST /v1/listen/{port}", s.postListen)
	mux.HandleFunc("POST /v1/connect/{port}", s.postConnect)
	mux.HandleFunc("PUT /v1/files", s.turn.awaitTurn(s.as(s.putFile)))
	mux.HandleFunc("GET /v1/files", s.as(s.getFile))
	mux.HandleFunc("DELETE /v1/files", s.turn.awaitTurn(s.as(s.deleteFile)))
	mux.HandleFunc("PUT /v1/tar", s.turn.awaitTurn(s.as(s.putTar)))
	mux.HandleFunc("GET /v1/tar", s.as(s.getTar))
	mux.HandleFunc("GET /v1/changes", s.as(s.getChanges))
	mux.HandleFunc("POST /v1/model", s.model.Upgrade)
	mux.HandleFunc("POST /v1/network", s.network.Upgrade)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not by the mux, which would redirect forwarded paths such as //x.
		if strings.HasPrefix(r.URL.Path, portsPrefix) {
			s.ports.ServeHTTP(w, r)
			return
		}

		mux.ServeHTTP(w, r)
	})
}

func (s *Server) getInfo(w http.ResponseWriter, _ *http.Request) { reply.JSON(w, s.info) }

func (s *Server) getUsage(w http.ResponseWriter, _ *http.Request) { reply.JSON(w, s.usage.Read()) }
