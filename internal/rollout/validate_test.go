package rollout_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func goodSpec() rollout.Spec {
	return rollout.Spec{
		ID:     "r1",
		Task:   rollout.Task{Instruction: "write hello.py"},
		Agent:  rollout.AgentOpencode,
		Mode:   rollout.TransparentProxy,
		Model:  rollout.Model{BaseURL: "http://127.0.0.1:9099/v1", Name: "m"},
		Limits: rollout.DefaultLimits(),
	}
}

func TestSpecValidate(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		change func(*rollout.Spec)
		field  string
		says   string
	}{
		"empty instruction": {func(s *rollout.Spec) { s.Task.Instruction = " \n" }, "instruction", "prompt"},
		"id with a dot":     {func(s *rollout.Spec) { s.ID = "a.b" }, "rollout_id", `"a.b"`},
		"id empty":          {func(s *rollout.Spec) { s.ID = "" }, "rollout_id", "1 to 64"},
		"id too long":       {func(s *rollout.Spec) { s.ID = strings.Repeat("a", 65) }, "rollout_id", "1 to 64"},
		"no agent":          {func(s *rollout.Spec) { s.Agent = "" }, "agent", `"opencode"`},
		"agent with a path": {func(s *rollout.Spec) { s.Agent = "../x" }, "agent", `"../x"`},
		"unknown mode":      {func(s *rollout.Spec) { s.Mode = "grey_box" }, "mode", "black_box"},
		"no endpoint":       {func(s *rollout.Spec) { s.Model.BaseURL = "" }, "base_url", "endpoint"},
		"cost of no price":  {func(s *rollout.Spec) { s.Limits.Cost = 1 }, "limits.cost", "price"},
		"negative cost":     {func(s *rollout.Spec) { s.Limits.Cost = -1 }, "limits.cost", "-1"},
		"negative price": {
			func(s *rollout.Spec) { s.Model.Price = &rollout.Price{Prompt: -1} },
			"price",
			"negative",
		},
		"no model":             {func(s *rollout.Spec) { s.Model.Name = "" }, "model", "name"},
		"negative memory":      {func(s *rollout.Spec) { s.Sandbox.MemoryMiB = -1 }, "sandbox", "negative"},
		"no cpu to speak of":   {func(s *rollout.Spec) { s.Sandbox.CPU = 0.001 }, "sandbox", "0.01"},
		"not a number of cpus": {func(s *rollout.Spec) { s.Sandbox.CPU = math.NaN() }, "sandbox", "negative"},
		"hardly any memory":    {func(s *rollout.Spec) { s.Sandbox.MemoryMiB = 1 }, "sandbox", "64"},
		"absurd memory":        {func(s *rollout.Spec) { s.Sandbox.MemoryMiB = 1 << 44 }, "sandbox", "16777216"},
		"blank verify command": {
			func(s *rollout.Spec) { s.Task.Verifier.Commands = []string{"true", " \n"} },
			"verify[1]",
			"bash command",
		},
		"blank setup command": {func(s *rollout.Spec) { s.Task.Setup = []string{""} }, "setup[0]", "bash command"},
		"blank solution": {
			func(s *rollout.Spec) { s.Task.Solution = []string{" "} },
			"solution[0]",
			"bash command",
		},
		"oracle at a loss": {
			func(s *rollout.Spec) { s.Agent = rollout.AgentOracle },
			"solution",
			"at least one command",
		},
		"long solution": {
			func(s *rollout.Spec) { s.Task.Solution = []string{strings.Repeat("x", 2<<20)} },
			"solution",
			"1572864 bytes",
		},
		"endless solution": {
			func(s *rollout.Spec) { s.Task.Solution = slices.Repeat([]string{"x"}, 1001) },
			"solution",
			"at most 1000",
		},
		"one-sided range": {
			func(s *rollout.Spec) { s.Task.Verifier.RewardRange = []float64{1} },
			"reward_range",
			"min",
		},
		"empty range": {
			func(s *rollout.Spec) { s.Task.Verifier.RewardRange = []float64{1, 1} },
			"reward_range",
			"below max",
		},
		"endless range": {
			func(s *rollout.Spec) { s.Task.Verifier.RewardRange = []float64{0, math.Inf(1)} },
			"reward_range",
			"min",
		},
		"unknown on_timeout": {func(s *rollout.Spec) { s.Task.Verifier.OnTimeout = "retry" }, "on_timeout", `"null"`},
		"unknown grade":      {func(s *rollout.Spec) { s.Task.Verifier.Grade = "same" }, "verifier.grade", `"live"`},
		"live for a client": {
			func(s *rollout.Spec) { s.Task.Verifier = rollout.Verifier{External: true, Grade: rollout.GradeLive} },
			"verifier.grade",
			"external",
		},
		"artifacts without an image": {
			func(s *rollout.Spec) { s.Task.Verifier.Artifacts = []string{"/app/a"} }, "verifier.artifacts", "needs verifier.image",
		},
		"image and live": {verifierImage(rollout.Verifier{Grade: rollout.GradeLive}), "verifier.image", "excludes grade: live"},
		"shared for a user": {
			func(s *rollout.Spec) {
				s.Task.Verifier.Grade, s.Sandbox.Image, s.Sandbox.User = rollout.GradeShared, "x", "app:root"
			},
			"verifier.grade", "needs sandbox.user root",
		},
		"image and external": {verifierImage(rollout.Verifier{External: true}), "verifier.image", "a client grades"},
		"image of a machine": {
			func(s *rollout.Spec) { s.Task.Verifier.Image, s.Sandbox.Backend = "x", rollout.BackendE2B }, "verifier.image", "e2b",
		},
		"relative artifact": {artifact("out.txt"), "verifier.artifacts", "must be an absolute path"},
		"exclude of no artifact": {
			verifierImage(rollout.Verifier{Exclude: map[string][]string{"/app": {"*"}}}), "verifier.exclude[\"/app\"]", "must be one of verifier.artifacts",
		},
		"no pattern": {
			verifierImage(rollout.Verifier{Artifacts: []string{"/app"}, Exclude: map[string][]string{"/app": {"/"}}}),
			"verifier.exclude[\"/app\"]", "must be patterns such as",
		},
		"artifact of a system": {artifact("/etc/passwd"), "verifier.artifacts", "outside the folders of the system"},
		"artifact of all":      {artifact("/tmp"), "verifier.artifacts", "must be a path below /tmp"},
		"artifact of tests":    {artifact("/tests/a"), "verifier.artifacts", "outside the folders of the system"},
		"artifact in the root": {artifact("/out.txt"), "verifier.artifacts", "a file must be in a folder"},
		"artifact above":       {artifact("/tmp/../etc/passwd"), "verifier.artifacts", "must be an absolute path"},
		"the home":             {artifact(rollout.Home), "verifier.artifacts", "outside the folders of the system"},
		"test file above":      {testFile("../x"), "test_files", "tests folder"},
		"test file elsewhere":  {testFile("/home/user/workdir/x"), "test_files", "tests folder"},
		"test file of no name": {testFile("a/"), "test_files", "paths of files"},
		"test file twice":      {uploaded("/home/user/tests/a", "a"), "test_files", "is also the file of"},
		"script as a file":     {testFile("test.sh"), "test_files", "test_script"},
		"absurd cpu":           {func(s *rollout.Spec) { s.Sandbox.CPU = 1e300 }, "sandbox", "4096"},
		"negative timeout":     {func(s *rollout.Spec) { s.Limits.Agent = -time.Second }, "agent_timeout_s", "got -1"},
		"endless timeout": {
			func(s *rollout.Spec) { s.Limits.Agent = math.MaxInt64 },
			"agent_timeout_s",
			"8.64e+06",
		},
		"endless queue": {
			func(s *rollout.Spec) { s.Limits.Queue = math.MaxInt64 },
			"limits.queue_s",
			"8.64e+06",
		},
		"endless attempts": {
			func(s *rollout.Spec) { s.Limits.Attempts = math.MaxInt },
			"limits.attempts",
			"at most 100",
		},
		"too many commands":  {commands(600, 600), "setup", "1000"},
		"negative turns":     {func(s *rollout.Spec) { s.Limits.Turns = -1 }, "limits.turns", "-1"},
		"call beyond agent":  {func(s *rollout.Spec) { s.Limits.Call = time.Hour }, "limits.call_s", "10m0s"},
		"quiet beyond agent": {func(s *rollout.Spec) { s.Limits.Quiet = time.Hour }, "limits.quiet_s", "10m0s"},
		"rollout too short": {
			func(s *rollout.Spec) { s.Limits.Rollout = 11 * time.Minute },
			"limits.rollout_s",
			"= 18m0s",
		},
		"uploads too large": {
			func(s *rollout.Spec) { s.Task.Files = map[string]string{"a": strings.Repeat("x", 257<<20)} },
			"upload_files",
			"at most",
		},
		"task too large": {
			func(s *rollout.Spec) { s.Task.Instruction = strings.Repeat("x", 2<<20) },
			"instruction",
			"at most",
		},
		"tests too large":      {file(rollout.TestsDir + "/" + strings.Repeat("x", 2<<20)), "test_files", "at most"},
		"file outside home":    {file("/etc/passwd"), "upload_files", "/home/user"},
		"file climbing out":    {file("../../x"), "upload_files", "/home/user"},
		"file beside home":     {file("/home/user2/x"), "upload_files", "/home/user"},
		"file without a name":  {file(""), "upload_files", "paths of files"},
		"file that is a dir":   {file("dir/"), "upload_files", "paths of files"},
		"file that is workdir": {file("."), "upload_files", "/home/user"},
		"file with a NUL":      {file("a\x00b"), "upload_files", "paths of files"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := goodSpec()
			c.change(&spec)
			err := spec.Validate()
			require.Equal(t, fault.Invalid, fault.KindOf(err))

			var f *fault.Error
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.field, f.Field)
			require.ErrorContains(t, err, c.field)
			require.ErrorContains(t, err, c.says)
		})
	}

	require.NoError(t, goodSpec().Validate())
}

func file(name string) func(*rollout.Spec) {
	return func(s *rollout.Spec) { s.Task.Files = map[string]string{name: "x"} }
}

func commands(setup, verify int) func(*rollout.Spec) {
	return func(s *rollout.Spec) {
		s.Task.Setup = slices.Repeat([]string{"true"}, setup)
		s.Task.Verifier.Commands = slices.Repeat([]string{"true"}, verify)
	}
}

// The longest allowed limits still nest: no sum of them overflows.
func TestLongestLimits(t *testing.T) {
	t.Parallel()

	const long = 100 * 24 * time.Hour

	l := rollout.Limits{Setup: long, Agent: long, Verifier: long, Collect: long, Queue: long, Attempts: 100}
	require.NoError(t, l.Validate())
	require.Greater(t, l.Filled().Rollout, 400*long)
	require.NoError(t, l.Filled().Validate())
}

// The error lists all problems, so that a caller can fix them at once.
func TestSpecValidateReportsAllProblems(t *testing.T) {
	t.Parallel()

	err := rollout.Spec{}.Validate()
	for _, name := range []string{"rollout_id", "instruction", "agent", "base_url"} {
		require.ErrorContains(t, err, name)
	}
}

func TestFilePath(t *testing.T) {
	t.Parallel()

	for name, want := range map[string]string{
		"a.py":                 "/home/user/workdir/a.py",
		"./sub/../a.py":        "/home/user/workdir/a.py",
		"../data/x":            "/home/user/data/x",
		"/home/user/.config/x": "/home/user/.config/x",
	} {
		got, err := rollout.FilePath(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// For any agent time the derived limits nest, and filling them again does not change them.
func TestDerivedLimitsNest(t *testing.T) {
	t.Parallel()

	rng := rand.New(rand.NewPCG(1, 2))

	for range 1000 {
		l := rollout.DefaultLimits()
		l.Agent = time.Duration(rng.Int64N(int64(12*time.Hour))) + time.Millisecond
		require.NoError(t, l.Validate())
		f := l.Filled()
		require.NoError(t, f.Validate())
		require.Equal(t, f, f.Filled())
		require.Less(t, f.Call, f.Agent)
		require.GreaterOrEqual(t, f.Rollout, f.Setup+f.Agent+f.Verifier+f.Collect)
	}

	require.Equal(t, rollout.DefaultLimits().Filled(), rollout.Limits{}.Filled())
}

// verifierImage gives the verifier an image of its own.
func verifierImage(v rollout.Verifier) func(*rollout.Spec) {
	v.Image = "x"
	return func(s *rollout.Spec) { s.Task.Verifier = v }
}

// artifact names an artifact for such a verifier.
func artifact(path string) func(*rollout.Spec) {
	return verifierImage(rollout.Verifier{Artifacts: []string{"/app/ok.txt", "/logs/artifacts", "/tmp/x", "/home/user/workdir/x", path}})
}

// testFile gives the verifier a file with that name.
func testFile(name string) func(*rollout.Spec) {
	return func(s *rollout.Spec) {
		s.Task.Verifier = rollout.Verifier{Script: "true", Files: map[string]string{name: ""}}
	}
}

// uploaded adds a file to the task and one to the verifier.
func uploaded(file, test string) func(*rollout.Spec) {
	return func(s *rollout.Spec) {
		s.Task.Files = map[string]string{file: ""}
		s.Task.Verifier.Files = map[string]string{test: ""}
	}
}

// Setup and the agent never see the verifier's files, however the client names them.
func TestSplit(t *testing.T) {
	t.Parallel()

	task := rollout.Task{
		Files: map[string]string{
			"a.py":                  "1",
			"tests/b.py":            "2",
			"/home/user/tests/c.py": "3",
			"../tests/d/e.py":       "4",
			"/home/user/testsuite":  "5",
		},
		Verifier: rollout.Verifier{Script: "s", Files: map[string]string{"f.py": "6"}},
	}
	files, v := task.Split()
	require.Equal(t, map[string]string{"a.py": "1", "tests/b.py": "2", "/home/user/testsuite": "5"}, files)
	require.Equal(t, map[string]string{
		"f.py":                    "6",
		"/home/user/tests/c.py":   "3",
		"/home/user/tests/d/e.py": "4",
	}, v.Files)
	require.Len(t, task.Verifier.Files, 1, "the task is not changed")

	name, err := rollout.TestFileName("/home/user/tests/d/e.py")
	require.NoError(t, err)
	require.Equal(t, "d/e.py", name)
}

func TestAgentsWithoutAModel(t *testing.T) {
	t.Parallel()

	for _, agent := range []string{rollout.AgentOracle, rollout.AgentNop} {
		s := goodSpec()
		s.Agent, s.Model, s.Task.Solution = agent, rollout.Model{}, []string{"true"}
		require.NoError(t, s.Validate())
		s.Model.Name = "half a model"
		require.Error(t, s.Validate())
	}
}

// The number of steps of an episode always has a maximum that its sandbox can store.
func TestEpisodeSteps(t *testing.T) {
	t.Parallel()

	for asked, want := range map[int]int{0: rollout.MaxEpisodeSteps, 7: 7, 100_000: rollout.MaxEpisodeSteps} {
		require.Equal(t, want, (&rollout.Episode{MaxSteps: asked}).Filled().MaxSteps)
	}
}
