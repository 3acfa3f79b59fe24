package activities_test

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
)

func verifyInput(v rollout.Verifier) activities.VerifyInput {
	return activities.VerifyInput{Target: target(), Verifier: v, Timeout: 2 * time.Minute}
}

// verifier returns the given result for each verifier process by name; processes without a result exit with code 0.
func verifier(answers map[string]exec) func(*fakeSandbox, string, wire.Process) exec {
	return func(_ *fakeSandbox, name string, _ wire.Process) exec { return answers[name] }
}

func TestVerifierGradesInAFreshSandbox(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.sandbox(t)
	b.locked(func() {
		b.files["/home/user/workdir/hello.py"] = "print('hi')"
		// written by the agent
		b.files[rollout.RewardFile] = "1.0"
		b.files[rollout.TestScript] = "exit 0"
		b.files[rollout.TestsDir+"/extra"] = "by the agent"
	})
	h.provider.exec = func(b *fakeSandbox, name string, p wire.Process) exec {
		require.Equal(t, "r.1.v", b.id)
		require.Equal(t, "print('hi')", b.files["/home/user/workdir/hello.py"], "the workspace is restored")
		require.NotContains(t, b.files, rollout.RewardFile, "what the agent wrote does not count")
		require.NotContains(t, b.files, rollout.TestsDir+"/extra")
		require.NotContains(t, b.files, rollout.TestScript)
		require.Equal(
			t,
			"/verifier/bin/run-here the script",
			b.files[wire.VerifierTests+"/test.sh"],
			"its programs are dispatched",
		)
		require.Equal(t, "a file", b.files[wire.VerifierTests+"/sub/want"])
		require.Equal(t, []string{"bash", "--noprofile", "--norc", "-c"}, p.Argv[:4])
		require.Regexp(t, `^GLOBIGNORE='-\*'; shopt -u dotglob; __runs=.*; __run_here\(\) .*; \. "\$0"$`, p.Argv[4])
		require.Equal(t, wire.VerifierTests+"/test.sh", p.Argv[5])
		require.True(t, p.Dispatch)
		require.Equal(t, rollout.Workdir, p.Dir)
		require.Equal(t, wire.VerifierUser, p.User)
		require.Equal(t, wire.VerifierHome, p.Env["HOME"])
		require.Equal(t, wire.VerifierTests, p.Env["TESTS_DIR"])
		require.NotContains(t, p.Env, "OPENAI_API_KEY")

		return rewards(" 0.25\n")
	}
	in := verifyInput(rollout.Verifier{
		Script: "the script",
		Files:  map[string]string{"/home/user/tests/sub/want": "a file"},
	})
	grade, err := h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, 0.25, grade.Reward)
	require.Equal(t, 1, b.killAlls, "the agent is dead before its home is saved")
	require.Equal(t, "verifier", h.provider.specs["r.1.v"].Labels["purpose"])
}

// Packages that every Python loads come from the setup in both kinds of sandbox. Changes by the agent have
// no effect on the verifier's Python.
func TestVerifierHasThePackagesOfTheSetup(t *testing.T) {
	t.Parallel()

	const own, site = rollout.Packages + "/python3/own.py", rollout.Packages + "/python3/usercustomize.py"
	for name, c := range map[string]struct {
		setup activities.SetupInput
		want  map[string]string
	}{
		"no setup":            {},
		"a setup without any": {setup: activities.SetupInput{Commands: []string{"true"}}},
		"a setup with some": {
			setup: activities.SetupInput{Files: map[string]string{own: "as set up"}},
			want:  map[string]string{own: "as set up"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			b := h.sandbox(t)

			if c.setup.Target = target(); len(c.setup.Files)+len(c.setup.Commands) > 0 {
				c.setup.Timeout = time.Minute
				require.NoError(t, h.RunSetup(t.Context(), c.setup))
			}

			b.locked(func() { b.files[own], b.files[site] = "by the agent", "by the agent" })

			if len(c.setup.Files)+len(c.setup.Commands) > 0 {
				require.NoError(t, h.RunSetup(t.Context(), c.setup), "a run that was given up comes late")
			}

			h.provider.exec = func(b *fakeSandbox, _ string, _ wire.Process) exec {
				for _, file := range []string{own, site} {
					require.Equal(t, c.want[file], b.files[file], file)
				}

				return rewards("1")
			}
			_, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Script: "x"}))
			require.NoError(t, err)
		})
	}
}

// A workflow that is reset starts its attempt again under the same keys. The second run uses neither the
// workspace nor the grade of the first.
func TestRestartedAttemptIsGradedAgain(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.provider.exec = func(b *fakeSandbox, _ string, _ wire.Process) exec { return rewards(b.files[solution]) }
	in := verifyInput(rollout.Verifier{Script: "x"})

	// as a workflow that was terminated leaves it
	connections := filepath.Join(h.dir, "network", "r.1.jsonl")
	old := time.Now().Add(-time.Hour)

	require.NoError(t, os.Mkdir(filepath.Dir(connections), 0o700))
	require.NoError(t, os.WriteFile(connections, []byte("{}\n"), 0o600))
	require.NoError(t, os.Chtimes(connections, old, old))

	for _, reward := range []string{"1", "0.25"} {
		b := h.sandbox(t)
		require.NoFileExists(t, connections)
		b.locked(func() { b.files[solution] = reward })

		grade, err := h.RunVerifier(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, reward, strconv.FormatFloat(grade.Reward, 'g', -1, 64))

		for _, key := range []string{store.ResultKey("r"), store.HeadKey("r")} {
			_, err = h.store.PutBytes(t.Context(), key, []byte("{}"))
			require.NoError(t, err)
		}

		// the clock of a file system is coarse
		b.locked(func() { b.began = b.began.Add(-time.Minute) })
		// the sandbox exists, so its records stay
		h.sandbox(t)
		require.Contains(t, h.stored(t, store.Grading), reward)
		require.NoError(t, h.CloseSandbox(t.Context(), activities.CloseInput{Target: target()}))
	}

	h.sandbox(t)

	for _, key := range []string{store.ResultKey("r"), store.HeadKey("r")} {
		_, err := h.store.Bytes(t.Context(), key, 10)
		require.Equal(t, fault.NotFound, fault.KindOf(err), "the rollout goes on: it has no result")
	}
}

// A stored grade is final: neither a retry nor the loss of every sandbox produces another one.
func TestVerifierDoesNotGradeTwice(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	h.provider.exec = verifier(map[string]exec{"verify-script": rewards("0.5")})
	in := verifyInput(rollout.Verifier{Script: "x"})
	_, err := h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.NoError(t, h.CloseSandbox(t.Context(), activities.CloseInput{Target: target()}))

	h.provider.exec = verifier(map[string]exec{"verify-script": rewards("1")})
	grade, err := h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, 0.5, grade.Reward)
	require.Equal(t, []string{"r.1", "r.1.v"}, h.provider.made)
}

func TestRewardRules(t *testing.T) {
	t.Parallel()

	script := rollout.Verifier{Script: "x"}
	commands := rollout.Verifier{Commands: []string{"one", "two", "three"}}
	both := rollout.Verifier{Script: "x", Commands: []string{"one", "two"}}
	null := func(v rollout.Verifier) rollout.Verifier { v.OnTimeout = rollout.TimeoutNull; return v }
	ranged := rollout.Verifier{Script: "x", RewardRange: []float64{-3, 3}}
	says := func(name, text string) map[string]exec { return map[string]exec{name: rewards(text)} }

	const zero, none = rollout.FailedBySubmission, rollout.NoUsableReward
	for name, c := range map[string]struct {
		v       rollout.Verifier
		answers map[string]exec
		reward  float64

		// "": graded
		status rollout.GradingStatus
		why    string
	}{
		"file": {v: script, answers: says("verify-script", "0.75"), reward: 0.75},
		"file of a failed script": {
			v:       script,
			answers: map[string]exec{"verify-script": {exit: 1, effect: rewards("0").effect}},
		},
		"in the task's range": {v: ranged, answers: says("verify-script", "-2.5"), reward: -2.5},
		"out of the default range": {
			v:       script,
			answers: says("verify-script", "-2.5"),
			status:  none,
			why:     "holds -2.5, outside the task's reward_range [0, 1]",
		},
		"share of commands": {
			v:       commands,
			answers: map[string]exec{"verify-2": {exit: 1}, "verify-3": {exit: 137}},
			reward:  1.0 / 3,
		},
		"all commands pass": {v: commands, reward: 1},
		"commands write a file": {
			v:       commands,
			answers: map[string]exec{"verify-1": {exit: 1}, "verify-2": rewards("0.9")},
			reward:  2.0 / 3,
		},
		"file beats commands": {
			v:       both,
			answers: map[string]exec{"verify-script": rewards("0.9"), "verify-1": {exit: 1}},
			reward:  0.9,
		},
		"commands beside script": {v: both, answers: map[string]exec{"verify-1": {exit: 1}}, reward: 0.5},
		"script ends early": {
			v:       both,
			answers: map[string]exec{"verify-script": {exit: 137}},
			status:  zero,
			why:     "the test script (exit code 137) wrote no reward",
		},
		"no file": {
			v:       script,
			answers: map[string]exec{"verify-script": {exit: 2}},
			status:  zero,
			why:     "the test script (exit code 2) wrote no reward",
		},
		"empty file": {
			v:       script,
			answers: says("verify-script", " \n"),
			status:  zero,
			why:     "wrote no reward",
		},
		"an unparsable script": {
			v: script,
			answers: map[string]exec{
				"verify-script": {exit: 2},
				"verify-syntax": {exit: 2, stderr: "line 1: syntax error"},
			},
			status: none,
			why:    "bash cannot parse the test script: line 1",
		},
		"a check that is killed": {
			v:       script,
			answers: map[string]exec{"verify-script": {exit: 137}, "verify-syntax": {exit: 137, signal: "SIGKILL"}},
			status:  zero,
			why:     "the test script (exit code 137) wrote no reward",
		},
		"an unparsable command": {
			v: rollout.Verifier{Commands: []string{"one", "if then ("}},
			answers: map[string]exec{
				"verify-2":        {exit: 2},
				"verify-syntax-2": {exit: 2, stderr: "line 1: syntax error"},
			},
			status: none,
			why:    "bash cannot parse verify command 2: line 1",
		},
		"nan": {
			v:       script,
			answers: says("verify-script", "nan"),
			status:  none,
			why:     `holds "nan", not a decimal number`,
		},
		"script's time is up": {
			v:       both,
			answers: map[string]exec{"verify-script": {hang: true, effect: rewards("1").effect}},
			status:  zero,
			why:     "the test script did not end within the verifier's 2m0s",
		},
		"the same, null": {
			v:       null(both),
			answers: map[string]exec{"verify-script": {hang: true, effect: rewards("1").effect}},
			status:  none,
			why:     "the test script did not end",
		},
		"command's time is up": {
			v:       commands,
			answers: map[string]exec{"verify-2": {hang: true}},
			reward:  2.0 / 3,
			why:     "verify command 2 (two) did not end within",
		},
		"that, null": {
			v:       null(commands),
			answers: map[string]exec{"verify-2": {hang: true}},
			status:  none,
			why:     "verify command 2 (two) did not end",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.sandbox(t)
			h.provider.exec = verifier(c.answers)
			want := rollout.Grading{Status: cmp.Or(c.status, rollout.Graded)}
			// first from the sandbox, then from the store
			for range 2 {
				grade, err := h.RunVerifier(t.Context(), verifyInput(c.v))
				in := collectInput(nil)

				if c.status == none {
					require.Equal(t, fault.VerifierFailed, fault.KindOf(err))
					require.ErrorContains(t, err, c.why)

					in.Head.Outcome = rollout.VerifierFailed
				} else {
					require.NoError(t, err)
					require.InDelta(t, c.reward, grade.Reward, 1e-12)

					in.Head.Outcome = rollout.Completed
				}

				_, err = h.ComposeResult(t.Context(), in)
				require.NoError(t, err)
				got := h.result(t).Grading
				require.Equal(t, want.Status, got.Status)
				require.Contains(t, got.Why, c.why)
			}
		})
	}
}

// If the agent's work prevents grading, the reward is 0, not null. If the cause lies elsewhere, the
// activity returns an error.
func TestCauseOfGradingFailure(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		box, method, path string
		err               error

		// for a reward of 0
		why string

		// of the returned error
		kind fault.Kind
	}{
		"a home that cannot be packed":   {"r.1", "GET", "/v1/tar", fault.New(fault.OutOfDisk, "too large"), "save the workspace: ", ""},
		"a home of too many levels":      {"r.1", "GET", "/v1/tar", fault.New(fault.Invalid, "too deep"), "save the workspace: ", ""},
		"a home that cannot be unpacked": {"r.1.v", "PUT", "/v1/tar", fault.New(fault.OutOfDisk, "full"), "restore the workspace: ", ""},
		"a reward that is a link":        {"r.1.v", "GET", "/v1/files", fault.New(fault.Invalid, "a link"), "read the reward file: ", ""},
		"processes that outlive SIGKILL": {"r.1.v", "POST", "/v1/kill-all", fault.New(fault.Timeout, "3 processes"), "end what the verifier left running: ", ""},
		"a sandbox that is gone":         {"r.1", "GET", "/v1/tar", fault.New(fault.SandboxLost, "gone"), "", fault.SandboxLost},
		"a host that does not answer":    {"r.1.v", "PUT", "/v1/tar", fault.New(fault.Unavailable, "no answer"), "", fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.sandbox(t)
			h.provider.onBox = func(b *fakeSandbox) {
				made := false
				b.refuse = func(method, path string, q map[string][]string) error {
					// allow creating the folders of a new sandbox
					if b.id == "r.1.v" && !made {
						made = method == http.MethodPut
						return nil
					}

					if b.id == c.box && method == c.method && path == c.path &&
						(c.path != "/v1/tar" || q["path"][0] == rollout.Home) {
						return c.err
					}

					return nil
				}
			}
			b, _ := h.provider.box("r.1")
			b.locked(func() { h.provider.onBox(b) })

			h.provider.exec = verifier(map[string]exec{"verify-script": rewards("1")})

			grade, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Script: "x"}))
			if c.kind != "" {
				require.Equal(t, c.kind, fault.KindOf(err))
				return
			}

			require.NoError(t, err)
			require.Zero(t, grade.Reward)
			require.Contains(t, h.stored(t, store.Grading), `"status":"failed_by_submission","why":"`+c.why)
		})
	}
}

// A sandbox that ended because it ran out of memory counts like a process killed at its memory limit. Any
// other loss is retried or is an infrastructure error, even if processes were killed before.
func TestSandboxRunsOutOfMemory(t *testing.T) {
	t.Parallel()

	const work, graded, control = "r.1", "r.1.v", "r.1.c"
	for name, c := range map[string]struct {
		// sandboxes lost after they have files
		lost []string

		// sandboxes whose sandboxd was killed by the kernel
		ended []string

		// killed processes in each sandbox
		killed int

		// for a reward of 0
		why  string
		kind fault.Kind
	}{
		"as it is packed": {
			lost:  []string{work},
			ended: []string{work},
			why:   "save the workspace: the sandbox ended because its memory ran out",
		},
		"as it is graded": {
			lost:  []string{graded},
			ended: []string{graded},
			why:   "run the verifier: the sandbox ended because its memory ran out",
		},
		"without the work, too": {
			lost:  []string{graded, control},
			ended: []string{graded, control},
			kind:  fault.VerifierFailed,
		},
		"lost as it is packed":  {lost: []string{work}, killed: 1, kind: fault.SandboxLost},
		"lost as it is graded":  {lost: []string{graded}, killed: 1, kind: fault.Unavailable},
		"lost without the work": {lost: []string{graded, control}, ended: []string{graded}, kind: fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			b := h.sandbox(t)
			b.locked(func() { b.files["/home/user/workdir/a"] = "by the agent" })

			h.provider.ooms, h.provider.ended = c.killed, c.ended
			losing := func(b *fakeSandbox) {
				b.refuse = func(method, path string, _ map[string][]string) error {
					if slices.Contains(c.lost, b.id) &&
						(method == http.MethodGet && path == "/v1/tar" || strings.HasSuffix(path, "/verify-1")) {
						return fault.New(fault.SandboxLost, "gone")
					}

					return nil
				}
			}
			b.locked(func() { losing(b) })

			h.provider.onBox = losing
			h.provider.exec = verifier(nil)
			grade, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Commands: []string{"one"}}))
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)

			if c.kind == "" {
				require.Zero(t, grade.Reward)
				require.Contains(t, h.stored(t, store.Grading), `"status":"failed_by_submission","why":"`+c.why)
			}
		})
	}
}

// A verifier whose processes the kernel kills because the host's memory is full is run again in another
// sandbox. The last result counts, as does one for which the sandbox reached its own limit.
func TestVerifierThatTheHostKills(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		// of the first gradings
		kills  int
		byHost bool

		want float64
		runs int
	}{
		"twice":            {2, true, 1, 3},
		"every time":       {9, true, 0, 3},
		"by its own limit": {9, false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.sandbox(t)

			runs := 0
			h.provider.exec = func(b *fakeSandbox, name string, _ wire.Process) exec {
				killed := b.id != "r.1.c" && runs < c.kills
				if b.id != "r.1.c" && name == "verify-1" {
					runs++
				}

				h.provider.mu.Lock()
				defer h.provider.mu.Unlock()

				h.provider.ooms, h.provider.byHost = 0, false
				if killed {
					h.provider.ooms, h.provider.byHost = 1, c.byHost
					return exec{exit: 137}
				}

				return exec{}
			}
			grade, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Commands: []string{"one"}}))
			require.NoError(t, err)
			require.Equal(t, c.want, grade.Reward)
			require.Equal(t, c.runs, runs)
		})
	}
}

// If the verifier's files do not fit into a sandbox without the work either, the error is the verifier's.
func TestVerifierThatDoesNotFit(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		full []string
		kind fault.Kind
	}{
		"beside the work": {[]string{"r.1.v"}, ""},
		"at all":          {[]string{"r.1.v", "r.1.c"}, fault.VerifierFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.sandbox(t)
			h.provider.onBox = func(b *fakeSandbox) {
				b.refuse = func(method, path string, q map[string][]string) error {
					if slices.Contains(c.full, b.id) && method == http.MethodPut && path == "/v1/tar" &&
						q["path"][0] == wire.VerifierTests {
						return fault.New(fault.OutOfDisk, "full")
					}

					return nil
				}
			}
			h.provider.exec = verifier(nil)
			grade, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Commands: []string{"one"}}))
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)

			if c.kind == "" {
				require.Zero(t, grade.Reward)
				require.Contains(
					t,
					h.stored(t, store.Grading),
					`"status":"failed_by_submission","why":"stage the verifier's files: `,
				)
			}
		})
	}
}

// A script that runs the work as the verifier lets the work close the script's folder. The folder was
// staged before, so a failure to stage it again is attributed to the work.
func TestWorkMakesScriptFolderUnreadable(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	h.provider.exec = func(b *fakeSandbox, _ string, _ wire.Process) exec {
		b.refuse = func(method, path string, q map[string][]string) error {
			if method == http.MethodPut && path == "/v1/tar" && q["path"][0] == wire.VerifierTests {
				return fault.New(fault.Invalid, "permission denied")
			}

			return nil
		}

		return exec{exit: 137}
	}
	grade, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Script: "x"}))
	require.NoError(t, err)
	require.Zero(t, grade.Reward)
	require.Contains(
		t,
		h.stored(t, store.Grading),
		`"status":"failed_by_submission","why":"stage the verifier's files again: `,
	)
}

// If the work delays the start of a command, the delay is charged to the verifier's time, not to the activity's.
func TestDelayedStartIsVerifierTime(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	in := verifyInput(rollout.Verifier{Commands: []string{"one", "two"}})
	in.Timeout = 100 * time.Millisecond
	refused := 0
	h.provider.onBox = func(b *fakeSandbox) {
		b.refuse = func(method, path string, _ map[string][]string) error {
			if refused > 0 || method != http.MethodPut || !strings.HasSuffix(path, "/verify-1") {
				return nil
			}

			refused++

			time.Sleep(in.Timeout)

			return fault.New(fault.Timeout, "the process did not start")
		}
	}
	h.provider.exec = verifier(nil)
	grade, err := h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.Zero(t, grade.Reward)

	v, _ := h.provider.box("r.1.v")
	require.Empty(t, v.order, "no time is left")
}

// After a worker was killed during grading, the next worker continues: the verifier keeps running, and its
// workspace is not restored again.
func TestVerifierIsAttachedTo(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.sandbox(t)
	b.locked(func() { b.files["/home/user/workdir/a"] = "by the agent" })

	in := verifyInput(rollout.Verifier{Commands: []string{"one", "two"}})
	h.provider.exec = func(b *fakeSandbox, name string, _ wire.Process) exec {
		if name == "verify-2" && len(b.order) == 2 {
			b.refuse = func(string, string, map[string][]string) error {
				return fault.New(fault.Unavailable, "the worker died")
			}
		}

		return write("/home/user/workdir/a", "by "+name)
	}
	_, err := h.RunVerifier(t.Context(), in)
	require.Error(t, err)

	v, _ := h.provider.box("r.1.v")
	v.locked(func() { v.refuse = nil })

	grade, err := h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, 1.0, grade.Reward)
	require.Equal(t, []string{"verify-1", "verify-2"}, v.order)
	require.Equal(t, "by verify-2", v.files["/home/user/workdir/a"])
}

// A broken connection to a running command does not affect the grade. The command continues, and the
// retried activity waits for its end.
func TestConnectionToARunningCommandBreaks(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	in := verifyInput(rollout.Verifier{Commands: []string{"one"}})
	h.provider.exec = func(b *fakeSandbox, _ string, _ wire.Process) exec {
		broken := false
		b.refuse = func(method, path string, _ map[string][]string) error {
			if broken || method != http.MethodGet || !strings.HasSuffix(path, "/verify-1") {
				return nil
			}

			broken = true

			return fault.New(fault.Unavailable, "connection reset")
		}

		return exec{busy: true}
	}
	_, err := h.RunVerifier(t.Context(), in)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)

	v, _ := h.provider.box("r.1.v")
	v.locked(func() { v.procs["verify-1"].Running = false })

	grade, err := h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, 1.0, grade.Reward)
	require.Equal(t, []string{"verify-1"}, v.order)
}

// If the verifier sandbox is lost, another one is created from the workspace in the store.
func TestVerifiersSandboxIsLost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	in := verifyInput(rollout.Verifier{Commands: []string{"one"}})
	h.provider.exec = func(b *fakeSandbox, _ string, _ wire.Process) exec {
		b.refuse = func(string, string, map[string][]string) error { return fault.New(fault.SandboxLost, "gone") }
		return exec{}
	}
	_, err := h.RunVerifier(t.Context(), in)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "to be tried again")

	require.NoError(t, h.provider.Destroy(t.Context(), "r.1.v"))
	require.NoError(t, h.provider.Destroy(t.Context(), "r.1"), "the agent's is not needed any more")
	h.provider.exec = verifier(nil)
	grade, err := h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, 1.0, grade.Reward)
}

// If the agent's sandbox is gone before its workspace was saved, nothing is left to grade.
func TestWorkspaceLost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	require.NoError(t, h.provider.Destroy(t.Context(), "r.1"))
	_, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Commands: []string{"one"}}))
	require.Equal(t, fault.SandboxLost, fault.KindOf(err))
}

func TestVerifierOutputIsKept(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	long := strings.Repeat("a", 5000) + "é"
	h.provider.exec = verifier(map[string]exec{"verify-script": {
		stdout: long,
		stderr: "oops",
		effect: rewards("1").effect,
	}})
	_, err := h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Script: "x"}))
	require.NoError(t, err)
	require.Equal(t, long, h.stored(t, store.VerifierStdout))
	require.Equal(t, "oops", h.stored(t, store.VerifierStderr))
	require.Contains(t, h.stored(t, store.Grading), `"stdout":"`+strings.Repeat("a", 3999)+`é"`)
}

// Only the time in which its commands run counts toward the verifier's limit. Time without a worker between
// two commands does not count.
func TestVerifierTimeCountsOnlyCommands(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	in := verifyInput(rollout.Verifier{Commands: []string{"one", "two"}})
	dies := true
	h.provider.exec = func(b *fakeSandbox, name string, _ wire.Process) exec {
		b.refuse = func(method, path string, _ map[string][]string) error {
			if dies && method == http.MethodPut && strings.HasSuffix(path, "/verify-2") {
				return fault.New(fault.Unavailable, "the worker died")
			}

			return nil
		}

		return exec{}
	}
	_, err := h.RunVerifier(t.Context(), in)
	require.Error(t, err)

	v, _ := h.provider.box("r.1.v")
	v.locked(func() {
		dies = false
		// it ran for 30 s while the clock was set forward by an hour
		first := v.procs["verify-1"]
		first.StartedAt, first.Ran = first.EndedAt.Add(-time.Hour), 30*time.Second
	})

	grade, err := h.RunVerifier(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, 1.0, grade.Reward)
	require.Equal(t, (in.Timeout - 30*time.Second).Milliseconds(), v.specs["verify-2"].TimeoutMillis)
}

// The lease of the agent's sandbox is renewed during grading, so that its logs can be collected afterwards.
func TestAgentsSandboxIsKeptWhileGrading(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	b := h.sandbox(t)
	_, err := h.store.PutBytes(t.Context(), store.AttemptKey("r", 1, store.Home), tarOf(nil, rollout.Home))
	require.NoError(t, err)

	before := 0

	b.locked(func() { before = b.renewals })

	_, err = h.RunVerifier(t.Context(), verifyInput(rollout.Verifier{Commands: []string{"one"}}))
	require.NoError(t, err)
	b.locked(func() { require.Greater(t, b.renewals, before) })
}
