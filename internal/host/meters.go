package host

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// roomTime bounds the look at each backend, so that one that does not answer takes nothing from the others.
const roomTime = 2 * time.Second

// Meters reads the room of a host's backends when metrics are read. A backend whose sandboxes cannot be listed has no
// value.
type Meters struct {
	// by the name of the backend
	Rooms map[string]*Capacity
	Drain *Drain

	// Waiting counts the rollouts that wait in Temporal for a host with the backend; nil: not known.
	Waiting func(ctx context.Context, backend string) (int, error)
}

var _ prometheus.Collector = Meters{}

// Describe implements prometheus.Collector.
func (m Meters) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{slotsDesc(), usedDesc(), sandboxesDesc(), waitingDesc(), drainedDesc()} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m Meters) Collect(out chan<- prometheus.Metric) {
	for _, name := range slices.Sorted(maps.Keys(m.Rooms)) {
		m.collectRoom(out, name)
		m.collectWaiting(out, name)
	}

	drained := 0
	if m.Drain.On() {
		drained = 1
	}

	out <- gauge(drainedDesc(), drained)
}

func (m Meters) collectRoom(out chan<- prometheus.Metric, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), roomTime)
	defer cancel()

	room, living, err := m.Rooms[name].roomAndCount(ctx)
	if err != nil {
		return
	}

	out <- gauge(slotsDesc(), room.Slots, name)

	out <- gauge(usedDesc(), room.Used, name)

	out <- gauge(sandboxesDesc(), living, name)
}

func (m Meters) collectWaiting(out chan<- prometheus.Metric, name string) {
	if m.Waiting == nil {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), roomTime)
	defer cancel()

	if n, err := m.Waiting(ctx, name); err == nil {
		out <- gauge(waitingDesc(), n, name)
	}
}

func gauge(d *prometheus.Desc, v int, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

func slotsDesc() *prometheus.Desc {
	return prometheus.NewDesc("rolloutd_slots",
		"Sandboxes of rollouts that this host can hold.", []string{"backend"}, nil)
}

func usedDesc() *prometheus.Desc {
	return prometheus.NewDesc("rolloutd_slots_used",
		"Slots of this host that rollouts have, whose sandboxes live or are about to be made.", []string{"backend"}, nil)
}

func sandboxesDesc() *prometheus.Desc {
	return prometheus.NewDesc("rolloutd_sandboxes",
		"Sandboxes that live on this host, those of verifiers and warm ones too.", []string{"backend"}, nil)
}

func waitingDesc() *prometheus.Desc {
	return prometheus.NewDesc("rolloutd_queue_waiting",
		"Rollouts that wait in Temporal for any host with the backend (an estimate; all hosts report the same).",
		[]string{"backend"}, nil)
}

func drainedDesc() *prometheus.Desc {
	return prometheus.NewDesc("rolloutd_host_drained",
		"1 while this host is drained and takes no new sandbox.", nil, nil)
}
