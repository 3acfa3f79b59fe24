package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A task whose work is in the folders of the system earns its reward with shared grading. With fresh grading the result
// names what the verifier did not see.
func TestSharedGrading(t *testing.T) {
	t.Parallel()

	host := page(t)
	srv := startDev(t, devOptions{env: []string{
		"ROLLOUTD_IMAGE_REGISTRIES=registry.invalid", "ROLLOUTD_NETWORK_MAX=*", "ROLLOUTD_NETWORK_ALLOW_HOSTS=" + host,
	}})
	root := t.TempDir()

	writeFiles(t, root, map[string]string{"etc/app.conf": "off\n", "usr/bin/tool": "#!/bin/bash\necho old\n"})

	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "image", "import", root, "system:1", "--data", srv.data).
		CombinedOutput()
	require.NoError(t, err, "%s", out)

	for name, c := range map[string]struct {
		agent, grade string
		reward       float64
		unseen       []string
	}{
		"right work":               {rollout.AgentOracle, rollout.GradeShared, 1, nil},
		"no work":                  {rollout.AgentNop, rollout.GradeShared, 0, nil},
		"right work, graded fresh": {rollout.AgentOracle, rollout.GradeFresh, 0, []string{"/etc/app.conf", "/usr/bin"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := runRollout(t, srv.url, args{
				"instruction": "switch the app on", "agent": c.agent,
				"sandbox":    args{"image": "system:1", "user": rollout.UserRoot},
				"solution":   []string{"echo on > /etc/app.conf; printf '#!/bin/bash\\necho new\\n' > /usr/bin/tool"},
				"verifier":   args{"grade": c.grade},
				"test_files": args{"want.txt": "on\n"},
				"test_script": `r=0; read a < /etc/app.conf; read b < $TESTS_DIR/want.txt; [ "$a" = "$b" ] && [ "$(/usr/bin/tool)" = new ] && r=1
echo $r > $VERIFIER_DIR/reward.txt`,
			})
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward)
			require.InDelta(t, c.reward, *result.Reward, 0, "%s%+v", result.VerifierStderr, result.Grading)
			require.Subset(t, result.Grading.Unseen, c.unseen)

			if c.grade == rollout.GradeShared {
				require.Equal(t, rollout.GradeShared, result.Grading.Mode)
			}
		})
	}

	t.Run("the agent's hosts", func(t *testing.T) {
		t.Parallel()

		result := runRollout(t, srv.url, args{
			"instruction": "do nothing", "agent": rollout.AgentNop,
			"sandbox":    args{"image": "system:1", "user": rollout.UserRoot},
			"network":    args{"agent": []string{host}},
			"verifier":   args{"grade": rollout.GradeShared},
			"test_files": args{"host.txt": host},
			"test_script": `r=0; at=${http_proxy#http://}; exec 3<> "/dev/tcp/${at%:*}/${at#*:}"
printf 'GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n' "$(< $TESTS_DIR/host.txt)" >&3; read -r line <&3
[[ $line = *"200 OK"* ]] && r=1; echo $r > $VERIFIER_DIR/reward.txt`,
		})
		require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
		require.InDelta(t, 1, *result.Reward, 0, "%s%+v", result.VerifierStderr, result.Grading)
	})

	_, err = call(t.Context(), srv.url, "run_rollout", args{
		"instruction": "x", "endpoint": "scripted", "verify": []string{"true"}, "verifier": args{"grade": rollout.GradeShared},
	})
	require.ErrorContains(t, err, "verifier.grade: shared is for an agent that changes folders of the system")
}
