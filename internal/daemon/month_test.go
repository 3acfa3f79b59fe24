package daemon_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	hostimages "github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/retention"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

const aDay = 24 * time.Hour

// month is a deployment in one data folder, whose days pass by aging its files.
type month struct {
	*testing.T
	cfg    config.Config
	store  *store.Store
	images *image.Store
}

// A month of use leaves the disk where the retention says: a week of rollouts, images, uploads and sessions, an index
// within its bound, and what is kept.
func TestMonth(t *testing.T) {
	t.Parallel()

	m := newMonth(t)

	var sizes []int64

	for day := range 30 {
		m.use(day)

		if day == 0 {
			require.NoError(t, retention.Pin(t.Context(), m.store, "r0-0", true))
			require.NoError(t, m.images.Pin(t.Context(), "day0", true))
		}

		require.NoError(t, daemon.Tidy(t.Context(), m.cfg, m.store))

		sizes = append(sizes, m.size(""))

		m.pass(aDay)
	}

	week := sizes[9]
	for day, size := range sizes[10:] {
		require.InDelta(t, week, size, float64(week)/20, "day %d", 10+day)
	}

	require.Less(t, week, 10*m.perDay(), "a week and what is kept")
	require.Less(t, m.size("search.db"), int64(2<<20))
	require.FileExists(t, filepath.Join(m.cfg.StoreURL(), store.ResultKey("r0-0")))

	require.Equal(t, 7, m.files("store/groups"), "the records of a group go with its rollouts")
	require.Equal(t, 7, m.files("store/deliveries"))
	require.Equal(t, 7, m.files("store/producers"))
	require.Equal(t, 7, m.files("store/hosts"))
	require.Equal(t, 30, m.files("store/tasks"))

	m.pass(110 * aDay)
	require.NoError(t, daemon.Tidy(t.Context(), m.cfg, m.store))
	require.Equal(t, 9, m.files("store/tasks"), "task files go when they were not used for 120 days")

	_, err := m.images.Find("day0")
	require.NoError(t, err)
	_, err = m.images.Find("day1")
	require.ErrorContains(t, err, "is not on this host")
}

func newMonth(t *testing.T) *month {
	t.Helper()

	m := &month{T: t, cfg: config.Defaults()}
	m.cfg.Data = t.TempDir()
	m.cfg.Retention.Rules = []config.RetentionRule{{OlderThan: 7*aDay - time.Hour}}
	m.cfg.Sandbox.Images.MaxAge = 7*aDay - time.Hour
	m.cfg.Serve.SearchMiB = 1
	require.NoError(t, m.cfg.Validate())

	var err error

	m.store, err = store.Open(t.Context(), m.cfg.StoreURL())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.store.Close()) })

	m.images, err = hostimages.Open(m.cfg, nil)
	require.NoError(t, err)

	return m
}

const (
	rolloutsOfDay = 10
	partBytes     = 100 << 10
)

// perDay is what a day of use writes beside the index, in bytes, without what is small.
func (m *month) perDay() int64 { return (2*(rolloutsOfDay+1) + 2) * partBytes }

// use is what a day writes.
func (m *month) use(day int) {
	m.Helper()

	for n := range rolloutsOfDay {
		m.end(fmt.Sprintf("r%d-%d", day, n), day)
	}

	m.record(day)

	root := m.TempDir()
	require.NoError(m, os.WriteFile(filepath.Join(root, "file"), noise(), 0o600))
	_, err := m.images.Import(m.Context(), root, fmt.Sprintf("day%d", day))
	require.NoError(m, err)

	sent := noise()
	sum := sha256.Sum256(sent)
	uploads := store.Uploads{Store: m.store, Keep: m.cfg.Serve.KeepSessions}
	_, err = uploads.Put(m.Context(), "ann", hex.EncodeToString(sum[:]), bytes.NewReader(sent))
	require.NoError(m, err)

	session := store.Sessions{Store: m.store}
	require.NoError(m, session.Save(m.Context(), fmt.Sprintf("session%d", day), []byte("{}")))
}

// record writes what a day leaves beside its rollouts: a delivered group of a producer that has ended, a host that went,
// and the files of a task.
func (m *month) record(day int) {
	m.Helper()

	producerID := fmt.Sprintf("p%d", day)
	now := time.Now()
	g := rollout.GroupState{ID: producerID + "-1", Outcome: rollout.GroupComplete, FinishedAt: &now}
	m.end(rollout.MemberID(g.ID, 0, 0), day)
	require.NoError(m, m.store.PutJSON(m.Context(), store.GroupKey(g.ID), g))
	require.NoError(m, m.store.PutJSON(m.Context(), store.ProducerKey(producerID), struct{}{}))

	group := delivery.Group{ID: g.ID, Key: g.Key(), FinishedAt: now}
	box := delivery.Outbox{Store: m.store}
	d, err := box.Begin(m.Context(), "sink", group, now)
	require.NoError(m, err)

	d.State = rollout.DeliveryDelivered
	require.NoError(m, box.Save(m.Context(), d, group))
	require.NoError(m, m.store.PutHost(m.Context(), store.HostRecord{ID: fmt.Sprintf("host%d", day)}))

	_, err = m.store.PutArchive(m.Context(), map[string]string{"day": strconv.Itoa(day)}, nil)
	require.NoError(m, err)
}

// files is the number of files below a path of the data folder.
func (m *month) files(path string) (n int) {
	m.Helper()
	m.each(path, func(string, fs.FileInfo) { n++ })

	return n
}

// end stores what an ended rollout leaves: a workspace, a log and a result whose error has words of its own.
func (m *month) end(id string, day int) {
	m.Helper()

	for _, name := range []string{store.Home, store.Events} {
		_, err := m.store.PutBytes(m.Context(), store.AttemptKey(id, 1, name), noise())
		require.NoError(m, err)
	}

	began := time.Now().Add(time.Duration(day) * aDay)
	r := rollout.NewResult(id)
	r.Outcome, r.Error = rollout.AgentFailed, new(strings.Repeat(id+" failed ", 1000))
	r.Attempts = []rollout.Attempt{{Number: 1, StartedAt: began, EndedAt: began}}
	require.NoError(m, m.store.PutJSON(m.Context(), store.ResultKey(id), r))
	require.NoError(m, m.store.PutJSON(m.Context(), store.HeadKey(id), r.Head()))
}

// noise is what no layer shares with another.
func noise() []byte {
	data := make([]byte, partBytes)
	_, _ = rand.Read(data)

	return data
}

// pass lets all files be older by d.
func (m *month) pass(d time.Duration) {
	m.Helper()
	m.each("", func(path string, info fs.FileInfo) {
		at := info.ModTime().Add(-d)
		require.NoError(m, os.Chtimes(path, at, at))
	})
}

// size is that of all files below a path of the data folder, in bytes.
func (m *month) size(path string) (sum int64) {
	m.Helper()
	m.each(path, func(_ string, info fs.FileInfo) { sum += info.Size() })

	return sum
}

func (m *month) each(path string, do func(path string, info fs.FileInfo)) {
	m.Helper()
	require.NoError(m, filepath.WalkDir(filepath.Join(m.cfg.Data, path), func(path string, e fs.DirEntry, err error) error {
		require.NoError(m, err)

		if e.IsDir() {
			return nil
		}

		info, err := e.Info()
		require.NoError(m, err)
		do(path, info)

		return nil
	}))
}
