package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// fetchScript requests a page through http_proxy with bash alone, and prints the first line of the answer.
const fetchScript = `at=${http_proxy#http://}
exec 3<>"/dev/tcp/${at%:*}/${at#*:}" || exit 1
printf 'GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n' "$1" >&3
head -n 1 <&3
`

const networkScript = `
- name: react
  match: fetch the pages
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "for n in a b; do bash fetch.sh $(cat $n.host) > agent_$n.txt; done; bash fetch.sh 169.254.169.254 > agent_c.txt"}}]
    - text: Done.
- name: opencode
  match: fetch the pages
  turns:
    - tool_calls: [{name: bash, arguments: {description: fetches, command: "for n in a b; do bash fetch.sh $(cat $n.host) > agent_$n.txt; done; bash fetch.sh 169.254.169.254 > agent_c.txt"}}]
    - text: Done.
`

func page(t *testing.T) (hostport string) {
	t.Helper()

	srv := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }),
	)
	t.Cleanup(srv.Close)

	return strings.TrimPrefix(srv.URL, "http://")
}

// Setup and agent can reach only the hosts of their phase, and the verifier can reach none. The test runs
// OpenCode and the agent react.
func TestNetwork(t *testing.T) {
	t.Parallel()
	model, a, b := startModel(t, networkScript), page(t), page(t)

	srv := startDev(t, devOptions{
		modelURL: model.url,
		env:      []string{"ROLLOUTD_NETWORK_MAX=*", "ROLLOUTD_NETWORK_ALLOW_HOSTS=" + a + "," + b},
	})
	for _, agent := range []string{"react", "opencode"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			result := runRollout(t, srv.url, args{
				"instruction": "fetch the pages", "endpoint": "scripted", "agent": agent,
				"network":      args{"setup": []string{a}, "agent": []string{b, "169.254.169.254"}},
				"upload_files": args{"fetch.sh": fetchScript, "a.host": a, "b.host": b},
				"setup":        []string{"for n in a b; do bash fetch.sh $(cat $n.host) > setup_$n.txt; done"},
				"verify": []string{
					"grep '200 OK' setup_a.txt",
					"grep '403 Forbidden' setup_b.txt",
					"grep '403 Forbidden' agent_a.txt",
					"grep '200 OK' agent_b.txt",
					"grep '502 Bad Gateway' agent_c.txt",
					"test -z \"$http_proxy\"",
					"! bash fetch.sh $(cat b.host)",
				},
			})
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.InDelta(t, 1.0, *result.Reward, 0, "%+v", result.VerifyResults)

			var seen []string

			for line := range strings.Lines(get(t, srv.url+"/rollouts/"+result.ID+"/logs/network")) {
				e := decode[struct {
					Phase    string
					Host     string
					Port     int
					Refused  string
					Received json.Number `json:"received_bytes"`
				}](t, line)

				made := "made"
				if e.Refused != "" {
					made = "refused"
				}

				if at := fmt.Sprintf("%s:%d", e.Host, e.Port); strings.HasPrefix(e.Host, "127.") ||
					strings.HasPrefix(e.Host, "169.") {
					seen = append(seen, fmt.Sprintf("%s %s %s", e.Phase, at, made))
				}
			}

			require.ElementsMatch(
				t,
				[]string{
					"setup " + a + " made",
					"setup " + b + " refused",
					"agent " + a + " refused",
					"agent " + b + " made",
					"agent 169.254.169.254:80 refused",
				},
				seen,
			)
		})
	}

	require.Empty(t, srv.sandboxes(t))
}

// The commands of a client that grades reach what the agent could reach.
func TestNetworkOfAClientThatGrades(t *testing.T) {
	t.Parallel()
	a, b := page(t), page(t)
	srv := startDev(t, devOptions{
		env: []string{"ROLLOUTD_NETWORK_MAX=*", "ROLLOUTD_NETWORK_ALLOW_HOSTS=" + a + "," + b},
	})
	id := start(t, srv.url, args{
		"instruction": "write", "agent": "nop", "verifier": args{"external": true}, "limits": args{"verifier_s": 600},
		"network":      args{"setup": []string{a}, "agent": []string{b}},
		"upload_files": args{"fetch.sh": fetchScript},
	})
	waitFor(t, srv.url, id, "awaits its score", func(s state) bool { return s.Phase == rollout.PhaseScoring })

	for host, want := range map[string]string{a: "403 Forbidden", b: "200 OK"} {
		got := send[executed](t, srv.url+"/executor/execute", 200, toolRequest(id, host, "bash fetch.sh "+host))
		require.Contains(t, got.Output, want, got.Error)
		require.Equal(t, false, got.Metadata["network_isolated"])
	}

	send[args](t, srv.url+"/rollouts/"+id+"/score", 200, args{"score": 1})
	require.Equal(t, rollout.Completed, finalize(t, srv.url, id).Outcome)
	require.Contains(t, get(t, srv.url+"/rollouts/"+id+"/logs/network"), `"phase":"grading"`)
}

// A task that asks for more network access than the operator allows is refused at submission.
func TestNetworkOfTheOperator(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})

	for message, asked := range map[string]args{
		"is not among the hosts that the operator lets tasks reach (none)": {"network": args{"allow": []string{"example.org"}}},
		"the operator lets no task reach a network":                        {"allow_network": true},
	} {
		asked["instruction"], asked["endpoint"] = "say hello", "scripted"
		_, err := call(t.Context(), srv.url, "start_rollout", asked)
		require.ErrorContains(t, err, message)
	}
}
