package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Two producers run, one for files and one for a trainer. The whole process is killed during production,
// and again after it has served a batch that the trainer has not acknowledged. Each group arrives once.
func TestProducersKilled(t *testing.T) {
	t.Parallel()

	const tasks, groupSize = 5, 2

	out := t.TempDir()
	trainer := &consumer{url: "http://" + freePorts(t, 1)[0]}
	srv := startDev(t, devOptions{
		script: "- {name: produce, match: produce, turns: [{text: Done.}]}\n",
		flags: []string{"--config", configFile(t, fmt.Sprintf(`
sinks:
  disk: {kind: files, path: %s, shard_groups: 3}
  trainer: {kind: trainer_api, url: %q, group_size: 2, max_batches_offpolicy: 100}
trainer_api: {listen: %q}
`, out, trainer.url, strings.TrimPrefix(trainer.url, "http://")))},
	})
	trainer.call(
		t,
		"POST",
		"/register",
		`{"wandb_group":"g","wandb_project":"p","batch_size":2,"max_token_len":512,"checkpoint_dir":"/c",
		"save_checkpoint_interval":10,"starting_step":0,"num_steps":1000}`,
	)

	for _, sink := range []string{"disk", "trainer"} {
		postProducer(t, srv.url, produceArgs(sink, tasks, groupSize))
	}

	trainer.step(t)
	srv.kill()
	srv = srv.restart(t)
	trainer.step(t)
	served := trainer.next(t)

	srv.kill()
	srv = srv.restart(t)
	require.Equal(t, served, trainer.pull(t), "a batch that is not acknowledged is served again")

	for len(trainer.groups) < tasks {
		trainer.step(t)
	}

	for _, sink := range []string{"disk", "trainer"} {
		s := waitProducer(t, srv.url, sink)
		require.Equal(t, producer.Completed, s.Outcome, s.Error)
		require.Equal(t, int64(tasks), s.Counts.Delivered, "%+v", s.Counts)
	}

	require.ElementsMatch(t, groupIDs("trainer", tasks), trainer.groups)
	require.Nil(t, trainer.pull(t).Batch)
	require.Equal(t, rolloutsOf("disk", tasks, groupSize), rolloutsIn(t, out))
	require.Empty(t, srv.sandboxes(t))
}

// consumer is a trainer that takes batches of one group each. It stores its last batch id, as a trainer
// does in its checkpoint.
type consumer struct {
	url  string
	last int

	// ids, in the order in which they were served
	groups []string
}

type servedBatch struct {
	ID    int `json:"batch_id"`
	Batch []struct {
		Overrides struct {
			Key string `json:"rolloutd_key"`
		} `json:"group_overrides"`
	} `json:"batch"`
}

// step takes the next batch, records its group and acknowledges it.
func (c *consumer) step(t *testing.T) {
	t.Helper()

	b := c.next(t)
	if b.ID != c.last {
		key := b.Batch[0].Overrides.Key
		c.groups = append(c.groups, key[:strings.LastIndex(key, "-")])
		c.last = b.ID
	}

	c.call(t, "POST", fmt.Sprintf("/batch/%d/ack", b.ID), "{}")
}

// next waits for the next batch.
func (c *consumer) next(t *testing.T) (b servedBatch) {
	t.Helper()
	require.Eventually(
		t,
		func() bool { b = c.pull(t); return b.Batch != nil },
		5*time.Minute,
		200*time.Millisecond,
		"no batch",
	)

	return b
}

func (c *consumer) pull(t *testing.T) servedBatch {
	t.Helper()
	return decode[servedBatch](t, c.call(t, "GET", "/batch?ack=explicit", ""))
}

// call repeats a request until it succeeds, since the server may not listen yet.
func (c *consumer) call(t *testing.T, method, path, body string) string {
	t.Helper()

	var text []byte
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
		if err != nil {
			return false
		}

		req.Header.Set("Content-Type", "application/json")

		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer resp.Body.Close()

		text, err = io.ReadAll(resp.Body)

		return err == nil && resp.StatusCode == http.StatusOK
	}, 5*time.Minute, 200*time.Millisecond, "%s %s: %s", method, path, text)

	return string(text)
}

func produceArgs(sink string, tasks, groupSize int) args {
	var all []args
	for i := range tasks {
		all = append(all, args{"task_id": fmt.Sprint("task-", i), "instruction": "produce", "verify": []string{"true"}})
	}

	return args{
		"producer_id":           sink,
		"sink":                  sink,
		"tasks":                 all,
		"group_size":            groupSize,
		"concurrency":           4,
		"max_batches_offpolicy": 0,
		"rollout":               args{"endpoint": "scripted", "agent": "react"},
		"filter":                args{"equal_scores": false},
	}
}

func postProducer(t *testing.T, url string, a args) {
	t.Helper()

	body, err := json.Marshal(a)
	require.NoError(t, err)
	resp, err := http.Post(url+"/producers", "application/json", bytes.NewReader(body))
	require.NoError(t, err)

	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, resp.StatusCode, "%s", text)
}

// waitProducer waits until the producer has ended.
func waitProducer(t *testing.T, url, id string) producer.State {
	t.Helper()

	var s producer.State

	require.Eventually(t, func() bool {
		text, known := look(t, url+"/producers/"+id)
		if known {
			s = decode[producer.State](t, text)
		}

		return known && s.Done()
	}, 5*time.Minute, 200*time.Millisecond, "producer %s does not end", id)

	return s
}

// groupIDs returns the ids of a producer's groups, one for each task.
func groupIDs(producerID string, tasks int) (ids []string) {
	for i := range tasks {
		ids = append(ids, producer.GroupID(producerID, producer.Cursor{Number: int64(i)}))
	}

	return ids
}

// rolloutsOf returns a count of one sequence for each rollout of a producer.
func rolloutsOf(producerID string, tasks, groupSize int) map[string]int {
	all := map[string]int{}

	for _, id := range groupIDs(producerID, tasks) {
		for i := range groupSize {
			all[rollout.MemberID(id, i, 0)] = 1
		}
	}

	return all
}

// rolloutsIn counts the sequences of each rollout in a folder of shards.
func rolloutsIn(t *testing.T, folder string) map[string]int {
	t.Helper()

	files, err := filepath.Glob(filepath.Join(folder, "shard-*.jsonl"))
	require.NoError(t, err)

	all := map[string]int{}

	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)

		for line := range strings.Lines(string(data)) {
			all[decode[struct {
				ID string `json:"rollout_id"`
			}](t, line).ID]++
		}
	}

	return all
}

func configFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))

	return file
}
