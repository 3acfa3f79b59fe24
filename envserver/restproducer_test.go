package envserver_test

import (
	"context"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// fakeProducers is an in-memory engine of producers. They run until they are aborted.
type fakeProducers struct {
	mu      sync.Mutex
	states  map[string]producer.State
	specs   []producer.Spec
	sets    [][]rollout.Spec
	changes []producer.Change
}

func newFakeProducers() *fakeProducers {
	return &fakeProducers{states: map[string]producer.State{}}
}

func (f *fakeProducers) StoreTasks(_ context.Context, tasks iter.Seq2[rollout.Spec, error]) (rollout.SetRef, error) {
	var all []rollout.Spec

	for spec, err := range tasks {
		if err != nil {
			return rollout.SetRef{}, err
		}

		all = append(all, spec)
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	f.sets = append(f.sets, all)

	return rollout.SetRef{Key: rollout.SetKey(strings.Repeat("a", 64)), Len: len(all)}, nil
}

func (f *fakeProducers) StartProducer(_ context.Context, p producer.Spec) (producer.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if s, ok := f.states[p.ID]; ok {
		return s, nil
	}

	if err := p.Validate(); err != nil {
		return producer.State{}, err
	}

	f.specs = append(f.specs, p)
	s := producer.State{
		ID:        p.ID,
		Owner:     p.Owner,
		Name:      p.Name,
		Sink:      p.Sink,
		GroupSize: p.GroupSize,
		Phase:     producer.Running,
		Bounds:    p.Bounds,
		Running:   []producer.RunningGroup{},
		Outbox:    []producer.Finished{},
		Again:     []producer.Cursor{},
		Evaluated: []producer.Evaluation{},
	}
	f.states[p.ID] = s

	return s, nil
}

func (f *fakeProducers) Producer(_ context.Context, id string) (producer.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	s, ok := f.states[id]
	if !ok {
		return s, fault.New(fault.NotFound, "no producer %q", id)
	}

	return s, nil
}

func (f *fakeProducers) ProducerOwner(ctx context.Context, id string) (string, error) {
	s, err := f.Producer(ctx, id)
	return s.Owner, err
}

func (f *fakeProducers) Producers(_ context.Context, q rollout.Filter) (producer.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	page := producer.Page{Producers: []producer.Listed{}}

	for _, s := range f.states {
		if q.Owner == "" || s.Owner == q.Owner {
			page.Producers = append(page.Producers, producer.Listed{
				ID:      s.ID,
				Name:    s.Name,
				Phase:   s.Phase,
				Outcome: s.Outcome,
			})
		}
	}

	return page, nil
}

func (f *fakeProducers) ChangeProducer(ctx context.Context, id string, c producer.Change) (bool, error) {
	s, err := f.Producer(ctx, id)
	f.mu.Lock()
	defer f.mu.Unlock()

	f.changes = append(f.changes, c)
	if err == nil && c.Paused != nil {
		s.Phase = map[bool]producer.Phase{true: producer.Paused, false: producer.Running}[*c.Paused]
		f.states[id] = s
	}

	return err == nil && !s.Done(), err
}

func (f *fakeProducers) AbortProducer(ctx context.Context, id, _ string) (bool, error) {
	s, err := f.Producer(ctx, id)
	if err != nil || s.Done() {
		return false, err
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	s.Phase, s.Outcome = producer.Done, producer.Aborted
	f.states[id] = s

	return true, nil
}

// withProducers starts a server that has producers and a task set "mine" with the given files.
func withProducers(t *testing.T, files map[string]string, change ...func(*envserver.Options)) (*rig, *fakeProducers) {
	t.Helper()

	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}

	f := newFakeProducers()

	return start(
		t,
		append(
			change,
			func(o *envserver.Options) {
				o.Producers = f
				if o.TaskSets == nil {
					o.TaskSets = map[string]string{"mine": dir}
				}
			},
		)...), f
}

func TestProducersOverREST(t *testing.T) {
	t.Parallel()
	r, f := withProducers(t, map[string]string{
		"a.yaml":    "instruction: a\nlimits: {turns: 3}\nsampling: {temperature: 1}\n",
		"b.yaml":    "instruction: b\n",
		"skip.yaml": "instruction: c\n",
	})
	body := `{"producer_id":"p","task_set":"mine","select":{"exclude":["skip"]},"shuffle":7,"sink":"s","group_size":4,"total_steps":9,"concurrency":64,
		"rollout":{"endpoint":"vllm","api_key":"sk-1","limits":{"turns":5}},"filter":{"equal_scores":false,"max_tokens":100,"max_version_lag":2,"mark_stale":true,"one_version":true},
		"eval":{"task_set":"mine","every":10,"select":{"tasks":["a"]}}}`
	status, _, out := r.do("POST", "/producers", body)
	require.Equal(t, http.StatusAccepted, status, out)
	require.NotContains(t, out, "sk-1")

	p := f.specs[0]
	seed, lag := uint64(7), 2
	require.Equal(t, &seed, p.Shuffle)
	require.Equal(t, producer.Bounds{Concurrency: 64, MaxBatchesOffpolicy: 3, TotalSteps: 9}, p.Bounds)
	require.Zero(t, p.Epochs, "without bound where the steps are bounded")
	require.Equal(t, producer.GroupFilter{
		MaxTokens:     100,
		MaxVersionLag: &lag,
		MarkStale:     true,
		OneVersion:    true,
	}, p.Filter)
	require.Equal(t, "sealed(sk-1)", p.SealedKey)
	require.Len(t, f.sets[0], 2)
	one := f.sets[0][0]
	require.Equal(t, "a", one.Task.ID)
	require.Empty(t, one.ID, "equal tasks are stored once")
	require.Empty(t, one.Model.SealedKey)
	require.Equal(t, 5, one.Limits.Turns, "the producer's arguments win")
	require.NotNil(t, one.Model.Sampling)
	require.Len(t, f.sets[1], 1)
	require.Equal(t, rollout.PurposeEval, f.sets[1][0].Model.Purpose)
	require.Equal(t, 1, p.Eval.GroupSize)

	status, _, again := r.do("POST", "/producers", strings.Replace(body, `"group_size":4`, `"group_size":5`, 1))
	require.Equal(t, http.StatusAccepted, status, again)
	require.Len(t, f.specs, 1, "the same id is the same producer")

	other := strings.NewReplacer(`"producer_id":"p"`, `"producer_id":"q"`, `"equal_scores":false,`, "").Replace(body)
	status, _, out = r.do("POST", "/producers", other)
	require.Equal(t, http.StatusAccepted, status, out)
	require.True(t, f.specs[1].Filter.EqualScores, "the default, also with other filters")

	for path, change := range map[string]string{
		"change": `{"paused":true,"concurrency":8}`,
		"abort":  `{"reason":"enough"}`,
	} {
		status, _, out = r.do("POST", "/producers/p/"+path, change)
		require.Equal(t, http.StatusOK, status, out)
	}

	require.Len(t, f.changes, 1)
	require.Equal(t, 8, *f.changes[0].Concurrency)

	status, _, out = r.do("GET", "/producers/p", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, out, "aborted")
	status, _, out = r.do("GET", "/producers?limit=1", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, out, `"producer_id":"p"`)
}

// Sampling parameters of rollout hold for their purpose, at top level as in an object.
func TestSamplingOfEvaluations(t *testing.T) {
	t.Parallel()

	zero, warm, narrow := 0.0, 0.7, 0.9

	for rollouts, want := range map[string]struct {
		// temperature of training
		train *float64
		eval  *rollout.Sampling
	}{
		`"temperature":0.7,"max_tokens":9`:  {train: &warm},
		`"sampling":{"temperature":0.7}`:    {train: &warm},
		`"eval_sampling":{"temperature":0}`: {eval: &rollout.Sampling{Temperature: &zero}},
		`"temperature":0.7,"eval_sampling":{"top_p":0.9}`: {
			train: &warm,
			eval:  &rollout.Sampling{TopP: &narrow},
		},
		`"purpose":"eval","eval_sampling":{"temperature":0}`: {
			train: &zero,
			eval:  &rollout.Sampling{Temperature: &zero},
		},
	} {
		t.Run(rollouts, func(t *testing.T) {
			t.Parallel()
			r, f := withProducers(t, map[string]string{"a.yaml": "instruction: a\n"})
			status, _, out := r.do("POST", "/producers", `{"task_set":"mine","sink":"s","group_size":4,"total_steps":9,
				"eval":{"task_set":"mine","every":10},"rollout":{"endpoint":"vllm",`+rollouts+`}}`)
			require.Equal(t, http.StatusAccepted, status, out)

			var train *float64
			if s := f.sets[0][0].Model.Sampling; s != nil {
				train = s.Temperature
			}

			require.Equal(t, want.train, train)
			require.Equal(t, want.eval, f.sets[1][0].Model.Sampling)
		})
	}
}

// A task for both purposes has the sampling parameters of both.
func TestSamplingOfATaskForBothPurposes(t *testing.T) {
	t.Parallel()

	r, f := withProducers(t, map[string]string{
		"a.yaml": "instruction: a\nsampling: {temperature: 0.7}\neval_sampling: {temperature: 0}\n",
	})
	status, _, out := r.do("POST", "/producers", `{"task_set":"mine","sink":"s","group_size":4,"total_steps":9,
		"eval":{"task_set":"mine","every":10},"rollout":{"endpoint":"vllm"}}`)
	require.Equal(t, http.StatusAccepted, status, out)
	require.InDelta(t, 0.7, *f.sets[0][0].Model.Sampling.Temperature, 0)
	require.InDelta(t, 0, *f.sets[1][0].Model.Sampling.Temperature, 0)
}

// A task that was proved in live grading is proved for producers that grade so.
func TestProducersGradeAsTheCheckDid(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "set.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"id":"a","instruction":"a","verify":["true"]}`+"\n"), 0o600))

	set, err := taskset.Open(file)
	require.NoError(t, err)
	t.Cleanup(func() { _ = set.Close() })

	task, err := set.Task(0)
	require.NoError(t, err)

	digest, err := task.Digest()
	require.NoError(t, err)
	require.NoError(t, taskset.Checks{digest: {Name: "a", Grade: rollout.GradeLive}}.Write(file))

	r, _ := withProducers(t, nil, func(o *envserver.Options) { o.TaskSets = map[string]string{"checked": file} })

	const head = `{"sink":"s","group_size":2,"task_set":"checked","require_checked":true,"rollout":{"endpoint":"vllm"`

	status, _, out := r.do("POST", "/producers", head+`}}`)
	require.Equal(t, http.StatusUnprocessableEntity, status, out)
	require.Contains(t, out, "has checked it with --grade live, not fresh")

	status, _, out = r.do("POST", "/producers", head+`,"verifier":{"grade":"live"}}}`)
	require.Equal(t, http.StatusAccepted, status, out)
}

func TestProducersRefuse(t *testing.T) {
	t.Parallel()
	r, f := withProducers(t, map[string]string{
		"a.yaml": "instruction: a\n",
		"b.yaml": "instruction: b\nlimits: {turn: 3}\n",
		"c.yaml": "verfy: x\n",
	})

	head := `{"sink":"s","group_size":2,"rollout":{"endpoint":"vllm"},`
	for body, want := range map[string]string{
		`{}`:                        "group_size",
		head + `"task_set":"none"}`: `no task set \"none\" is configured`,
		head + `"task_set":"mine"}`: "2 tasks are broken",
		head + `"tasks":[]}`:        "there are no tasks",
		head + `"tasks":[1]}`:       "tasks[0]",
		head + `"tasks":7}`:         "must be a list of tasks",
		head + `"task_set":"mine","tasks":[{"instruction":"x"}]}`:                  "but not both",
		head + `"tasks":[{"instruction":"x","api_key":"k"}]}`:                      "set it in rollout",
		head + `"tasks":[{"instruction":"x"}],"concurrency":-1}`:                   "concurrency",
		head + `"tasks":[{"instruction":"x"}],"eval":{"task_set":"mine"}}`:         "every",
		head + `"tasks":[{"instruction":"x"}],"shuffle":-1}`:                       "shuffle",
		head + `"tasks":[{"instruction":"x"}],"filter":{"mark_stale":true}}`:       "max_version_lag",
		head + `"tasks":[{"instruction":"x"}],"verfy":1}`:                          "unknown argument",
		`{"sink":"s","group_size":2,"rollout":7,"tasks":[{"instruction":"x"}]}`:    "rollout",
		head + `"task_set":"mine","select":{"tasks":["x*"]}}`:                      "no task of",
		head + `"task_set":"mine","require_checked":true}`:                         "has not checked it as it is now",
		head + `"tasks":[{"instruction":"x"}],"require_checked":true}`:             "needs task_set",
		head + `"tasks":[{"instruction":"x"}],"eval":{"task_set":"no","every":1}}`: "eval",
	} {
		status, _, out := r.do("POST", "/producers", body)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", body, out)
		require.Contains(t, out, want, body)
	}

	require.Empty(t, f.specs)

	status, _, out := r.do("POST", "/producers", head+`"task_set":"mine","skip_broken":true}`)
	require.Equal(t, http.StatusAccepted, status, out)
	require.Contains(t, out, "c.yaml")
	require.Contains(t, out, "limits.turn")
	require.Contains(t, out, `"unproved":1`)
	require.Equal(t, 1, f.specs[0].Tasks.Len)
	require.Len(t, f.specs[0].ID, 32)

	for change, want := range map[string]string{
		`{"concurrency":0}`:   "concurrency",
		`{"concurrency":[1]}`: "concurrency: must be a whole number",
		`{"colour":1}`:        "colour: unknown argument: a change takes paused, stop, concurrency",
		`{"paused":"maybe"}`:  "paused: must be true or false",
	} {
		status, _, out = r.do("POST", "/producers/"+f.specs[0].ID+"/change", change)
		require.Equal(t, http.StatusUnprocessableEntity, status, change)
		require.Contains(t, out, want, change)
	}

	status, _, _ = r.do("GET", "/producers/none", "")
	require.Equal(t, http.StatusNotFound, status)
}

// A client sees its own producers only, and their tasks stay within the limits of its token.
func TestProducersHaveOwners(t *testing.T) {
	t.Parallel()

	f := newFakeProducers()
	r := shared(t, func(o *envserver.Options) { o.Producers = f })
	body := `{"producer_id":"p","sink":"s","group_size":2,"rollout":{"endpoint":"vllm"},"tasks":[{"instruction":"x"}]}`
	status, _, out := r.do("POST", "/producers", body, "Authorization", alice)
	require.Equal(t, http.StatusAccepted, status, out)
	require.Equal(t, "alice", f.specs[0].Owner)

	for path, method := range map[string]string{
		"/producers/p":        "GET",
		"/producers/p/change": "POST",
		"/producers/p/abort":  "POST",
	} {
		status, _, _ = r.do(method, path, "{}", "Authorization", bob)
		require.Equal(t, http.StatusNotFound, status, path)
	}

	for token, want := range map[string]int{alice: 1, bob: 0, admin: 1} {
		_, _, out = r.do("GET", "/producers", "", "Authorization", token)
		require.Equal(t, want, strings.Count(out, `"producer_id"`))
	}

	status, _, _ = r.do("POST", "/producers", body, "Authorization", bob)
	require.Equal(t, http.StatusConflict, status)

	large := strings.NewReplacer(`"p"`, `"q"`, `"instruction":"x"`, `"instruction":"x","sandbox":{"memory_mib":8192}`).
		Replace(body)
	status, _, out = r.do("POST", "/producers", large, "Authorization", alice)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, out, "sandbox.memory_mib")
}
