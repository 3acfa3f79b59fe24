package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/daemon/machine"
	"github.com/rolloutd/rolloutd/internal/daemon/pools"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/filelock"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// workerTier runs rollouts: a worker for workflows and CreateSandbox on the queue that all hosts share, one
// for CreateSandbox of each further backend, one on this host's own queue for all other activities of its
// sandboxes, and the janitor.
func (d *Daemon) workerTier() tier.Tier {
	return tier.Tier{Name: "worker", Budget: 2 * workerStop, Start: func(ctx context.Context, parts *tier.Parts) error {
		if d.roles == (Roles{Worker: true}) {
			tightenGC()
		}

		lock, err := filelock.Acquire(d.cfg.HostIDFile() + ".lock")
		if err != nil {
			return fmt.Errorf("a data folder has one worker: %w", err)
		}

		parts.OnClose(lock.Release)

		return d.startWorker(ctx, parts)
	}}
}

// tightenGC sets GOGC to 25 in a process that is a worker only. Its heap is mostly rollouts that wait for
// their models. Free memory between live objects is not returned to the system and grows with GOGC. A
// collection is cheap, since a waiting rollout has some 60 KiB of heap. The operator's GOGC overrides it.
func tightenGC() {
	const percent = 25
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// startWorker starts the parts of the worker. Its addresses are known to the servers before it takes a rollout.
func (d *Daemon) startWorker(ctx context.Context, parts *tier.Parts) error {
	if err := d.identify(ctx); err != nil {
		return err
	}

	backends, err := d.capacities()
	if err != nil {
		return err
	}

	agents, err := Agents(d.cfg, d.log)
	if err != nil {
		return err
	}

	if err := checkAgentFolders(d.cfg); err != nil {
		return err
	}

	keepWarm := d.addWarmPools(backends, agents)

	data, err := d.openHostData(parts, backends, agents)
	if err != nil {
		return err
	}

	self := d.presence(backends)

	meters := host.Meters{Rooms: self.Rooms, Drain: d.drain, Waiting: d.waitingFor}
	if err := d.tel.Registry().Register(meters); err != nil {
		return fmt.Errorf("metrics of this host: %w", err)
	}

	api, episodes, err := d.listenHost(parts, self)
	if err != nil {
		return err
	}

	if err := checkGatewayKey(ctx, d.cfg.GatewayURL(), d.key, d.log); err != nil {
		return err
	}

	if err := self.Announce(ctx); err != nil {
		return err
	}

	d.takeOver(ctx)

	// They stop after the workers: no activity takes a warm sandbox any more.
	parts.OnStop(tier.Background(keepWarm).Stop)
	parts.OnStop(tier.Background(d.suspended.Run).Stop)

	if err := d.startWorkers(parts, data.acts, backends); err != nil {
		return err
	}

	// It stops before the workers, whose stop cuts off calls of episodes.
	d.serveHost(parts, api, episodes, data, self)

	for _, f := range []func(context.Context) error{d.janitor(data.routes).Run, d.sinks.Maintain, d.collect, self.Run} {
		parts.OnStop(tier.Background(f).Stop)
	}

	return nil
}

// hostData is what the activities of this host leave on it, and the routes of its gateway.
type hostData struct {
	acts     *activities.Activities
	events   *eventlog.Logs
	episodes *toolservice.Table
	routes   *gatewayapi.Client
}

// openHostData opens the data of this host and makes its activities.
func (d *Daemon) openHostData(
	parts *tier.Parts,
	backends map[string]activities.Backend,
	agents *agent.Registry,
) (data hostData, err error) {
	tools, closeTools, err := toolRegistry(d.cfg, d.log)
	if err != nil {
		return data, err
	}

	parts.OnClose(closeTools)

	data.routes = gatewayapi.NewClient(d.cfg.GatewayURL(), d.key)
	data.episodes = toolservice.NewTable(d.cfg.EpisodesDir())

	if data.events, err = eventlog.Open(filepath.Join(d.cfg.Data, "events"), d.log); err != nil {
		return data, err
	}

	data.acts, err = d.activities(backends, agents, tools, data)

	return data, err
}

// listenHost opens the listener of the host's API, and the one of its episodes if the configuration has one (else
// nil). It adds their addresses to self.
func (d *Daemon) listenHost(parts *tier.Parts, self *Presence) (api, episodes *net.TCPListener, err error) {
	api, err = listen.TCP("the host's API", d.cfg.Worker.Listen, "worker.listen (ROLLOUTD_WORKER_LISTEN)")
	if err != nil {
		return nil, nil, err
	}

	parts.AddListener(api)

	self.Record.URL = hostapi.URL(api.Addr(), d.cfg.Worker.Advertise)

	episodes, self.Record.ToolsURL, err = listenForEpisodes(d.cfg.Worker, self.Record.URL)
	if err != nil {
		return nil, nil, err
	}

	if episodes != nil {
		parts.AddListener(episodes)
	}

	return api, episodes, nil
}

// serveHost serves the data and the episodes of this host.
func (d *Daemon) serveHost(parts *tier.Parts, api, episodes *net.TCPListener, data hostData, self *Presence) {
	tools := episodeService{Key: d.key, Log: d.log}
	handler := hostapi.Handler(hostapi.Options{Key: d.key, Events: data.events, Transcripts: data.acts, Self: self})
	parts.Add(tier.ServeHTTP(api, tools.With(handler, data.episodes)))

	if episodes != nil {
		parts.Add(tier.ServeHTTP(episodes, tools.handler(data.episodes)))
	}
}

// takeOver reclaims the activities of a worker that was killed. Its failure is not fatal: their heartbeat
// timeout does the same later.
func (d *Daemon) takeOver(ctx context.Context) {
	t := &host.Takeover{Host: d.host, Namespace: d.namespace, Pending: d.temporal, Sandboxes: d.backends, Logger: d.log}
	if _, err := t.Reclaim(ctx); err != nil {
		d.log.WarnContext(ctx, "activities of the previous worker may wait for their heartbeat timeout", "error", err)
	}
}

// activities returns the activities of this host.
func (d *Daemon) activities(
	backends map[string]activities.Backend,
	agents *agent.Registry,
	tools *tool.Registry,
	data hostData,
) (*activities.Activities, error) {
	reach, err := d.network()
	if err != nil {
		return nil, err
	}

	if d.sinks, err = d.deliverer(); err != nil {
		return nil, err
	}

	return activities.New(activities.Options{
		Host:      d.host,
		Queue:     d.queue(),
		Backends:  backends,
		Agents:    agents,
		Tools:     tools,
		Network:   reach,
		Gateway:   data.routes,
		Store:     d.store,
		Episodes:  data.episodes,
		Signals:   d.temporal,
		Delivery:  d.sinks,
		Groups:    rollouts.New(d.temporal, d.workflowQueue(), d.store, temporalx.DataConverter(d.key), nil),
		Events:    data.events,
		Starts:    d.starts,
		Suspended: &d.suspended,
		Registry:  d.tel.Registry(),
		Lease:     d.cfg.Worker.Lease,
		Logger:    d.log,
	}), nil
}

// network returns the service for connections of tasks to hosts outside; nil: tasks may reach none.
func (d *Daemon) network() (*network.Service, error) {
	c := d.cfg.Sandbox.Network
	if len(c.Max) == 0 {
		return nil, nil
	}

	most, err := egress.ParseAllow(c.Max)
	if err != nil {
		return nil, fmt.Errorf("sandbox.network.max: %w", err)
	}

	special, err := egress.Parse(c.AllowHosts)
	if err != nil {
		return nil, fmt.Errorf("sandbox.network.allow_hosts: %w", err)
	}

	return &network.Service{
		Dir:       d.cfg.NetworkDir(),
		Max:       most,
		Addresses: special.Setting("sandbox.network.allow_hosts (ROLLOUTD_NETWORK_ALLOW_HOSTS)"),
		Logger:    d.log,
	}, nil
}

// identify reads this host's id, and whether operators want it drained.
func (d *Daemon) identify(ctx context.Context) error {
	id, err := machine.HostID(d.cfg.HostIDFile(), d.cfg.Worker.Name)
	if err != nil {
		return err
	}

	d.host, d.drain = id, host.NewDrain(d.store, id)
	if err := d.drain.Refresh(ctx); err != nil {
		return fmt.Errorf("read whether this host is drained: %w", err)
	}

	if d.drain.On() {
		d.log.WarnContext(ctx, "this host is drained and takes no new sandbox (rolloutd hosts resume)", "host", id)
	}

	return nil
}

// presence returns the presence of this host, without its addresses, which are not known yet.
func (d *Daemon) presence(backends map[string]activities.Backend) *Presence {
	rooms := map[string]*host.Capacity{}
	for name, b := range backends {
		rooms[name] = b.Capacity
	}

	return &Presence{
		Record:  store.HostRecord{ID: d.host, StartedAt: time.Now().UTC(), KeyID: d.key.ID()},
		Version: Version,
		Rooms:   rooms,
		Drain:   d.drain,
		Problem: d.room.Problem,
		Store:   d.store,
		Log:     d.log,
	}
}

// waitingFor returns how many rollouts wait for a host with the backend.
func (d *Daemon) waitingFor(ctx context.Context, backend string) (int, error) {
	temporal := pools.New(d.temporal, d.namespace, temporalx.DataConverter(d.key))

	waiting, err := temporal.Backlog(ctx, rollout.CreateQueue(backend))

	return waiting.Count, err
}

func (d *Daemon) janitor(routes *gatewayapi.Client) *host.Janitor {
	return &host.Janitor{
		Sandboxes: d.backends, Workflows: d.temporal, Routes: routes,
		Grace: d.cfg.Worker.Grace, Every: d.cfg.Worker.Janitor, Logger: d.log,
	}
}

// collect removes unfinished blobs of killed writers, and surplus images and programs of agents, at its start and at the
// intervals of the retention, until ctx ends.
func (d *Daemon) collect(ctx context.Context) error {
	agents, err := Programs(d.cfg, d.log)
	if err != nil {
		return err
	}

	for {
		d.sweepStore(ctx)

		if _, err := agents.Collect(ctx, time.Now()); err != nil {
			d.log.WarnContext(ctx, "programs of agents were not removed", "error", err)
		}

		if err := d.collectImages(); err != nil {
			d.log.WarnContext(ctx, "surplus images were not removed", "error", err)
		}

		if err := clock.Sleep(ctx, d.cfg.Retention.Every); err != nil {
			return err
		}
	}
}

// sweepStore removes unfinished blobs of killed writers.
func (d *Daemon) sweepStore(ctx context.Context) {
	if n, err := d.store.Sweep(ctx); err != nil && ctx.Err() == nil {
		d.log.WarnContext(ctx, "sweep store", "error", err)
	} else if n > 0 {
		d.log.InfoContext(ctx, "removed unfinished blobs of killed writers", "blobs", n)
	}
}

// collectImages removes surplus images, on a host that has images.
func (d *Daemon) collectImages() error {
	if d.images == nil {
		return nil
	}

	_, err := d.images.Collect(time.Now())

	return err
}
