package host

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// roomTime bounds the look at a backend's sandboxes when metrics are read.
const roomTime = 5 * time.Second

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
	ctx, cancel := context.WithTimeout(context.Background(), roomTime)
	defer cancel()

	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}

	for _, name := range slices.Sorted(maps.Keys(m.Rooms)) {
		if room, living, err := m.Rooms[name].roomAndCount(ctx); err == nil {
			gauge(slotsDesc(), room.Slots, name)
			gauge(usedDesc(), room.Used, name)
			gauge(sandboxesDesc(), living, name)
		}

		if m.Waiting == nil {
			continue
		}

		if n, err := m.Waiting(ctx, name); err == nil {
			gauge(waitingDesc(), n, name)
		}
	}

	drained := 0
	if m.Drain.On() {
		drained = 1
	}

	gauge(drainedDesc(), drained)
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
