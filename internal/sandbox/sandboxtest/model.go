package sandboxtest

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

func modelTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Call":             modelCall,
		"Streams":          modelStreams,
		"HeldUntilServed":  modelHeld,
		"SentAgain":        modelSentAgain,
		"NewerWins":        modelNewerWins,
		"AgentAborts":      modelAgentAborts,
		"GatewayAborts":    modelGatewayAborts,
		"BreaksMidStream":  modelBreaksMidStream,
		"TooLarge":         modelTooLarge,
		"ManyAtOnce":       modelManyAtOnce,
		"NoOtherNetwork":   noOtherNetwork,
		"CannotPickCallID": modelCannotPickCallID,
		"Origin":           modelOrigin,
		"OriginAfterReply": modelOriginAfterReply,
	}
}

// agent is a shell function that makes a model call with nothing but bash: body → whole raw answer.
const agent = `call() { exec 3<>/dev/tcp/127.0.0.1/7000; printf 'POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: evil.example\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s' ${#1} "$2" "$1" >&3; cat <&3; }; `

// gateway serves the model channel until it is stopped.
type gateway struct {
	stop func()
	done chan error
}

func (p *Place) serve(h http.HandlerFunc) *gateway {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	g := &gateway{done: make(chan error, 1)}
	served := make(chan struct{})

	go func() { g.done <- p.Backend.ServeModel(ctx, p.ID(), h, func() { close(served) }) }()

	select {
	case <-served:
	case err := <-g.done:
		require.FailNow(p.t, "the channel is not served", "%v", err)
	}

	var once sync.Once

	g.stop = func() { once.Do(func() { cancel(); require.NoError(p.t, <-g.done) }) }

	p.t.Cleanup(cancel)

	return g
}

func modelCall(t *testing.T, h Harness) {
	p := h.place(t)
	seen := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	g := p.serve(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- r

		bodies <- string(body)

		w.Header().Set("X-Reply", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "pong")
	})
	out := p.Bash(agent + `call '{"a":1}' $'Authorization: Bearer none\r\n'`)
	r := <-seen
	require.Equal(t, "/v1/chat/completions?x=1", r.URL.RequestURI())
	require.Equal(t, http.MethodPost, r.Method)
	require.Equal(t, 2, r.ProtoMajor)
	require.Equal(t, `{"a":1}`, <-bodies)
	require.Equal(t, "Bearer none", r.Header.Get("Authorization"))
	require.NotEmpty(t, r.Header.Get(wire.CallIDHeader))
	require.NotContains(t, r.Host, "evil")
	require.Contains(t, out.Stdout, "HTTP/1.1 418 ")
	require.Contains(t, out.Stdout, "X-Reply: yes")
	require.Contains(t, out.Stdout, "\npong")
	g.stop()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.Backend.ServeModel(ended, p.ID(), nil, nil), "an ended context is no failure")
}

// A piece of the answer is there before the next one is made.
func modelStreams(t *testing.T, h Harness) {
	p := h.place(t)
	p.serve(func(w http.ResponseWriter, r *http.Request) {
		for _, s := range []string{"data: one\n\n", "data: two\n\n"} {
			_, _ = io.WriteString(w, s)
			_ = http.NewResponseController(w).Flush()
			// The agent confirms the piece through a file.
			p.Eventually(func() bool {
				_, err := p.ReadFile(r.Context(), "/tmp/got-"+s[6:9], 10)
				return err == nil
			}, "the agent gets "+s)
		}
	})
	out := p.Bash(
		agent + `call x | while read -r line; do case "$line" in *one*) : > /tmp/got-one;; *two*) : > /tmp/got-two;; esac; echo "$line"; done`,
	)
	require.Contains(t, out.Stdout, "data: two")
}

// A call made while there is no gateway waits for one.
func modelHeld(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("agent", agent+"call early")
	_, err := p.Wait(t.Context(), "agent", 0)
	require.NoError(t, err)

	g := p.serve(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	require.Contains(t, p.End("agent").Stdout, "early")
	g.stop()
}

// A gateway that goes away before it has answered is replaced without the agent's notice, and the call keeps its id.
func modelSentAgain(t *testing.T, h Harness) {
	p := h.place(t)

	var ids []string

	arrived := make(chan struct{})
	first := p.serve(func(_ http.ResponseWriter, r *http.Request) {
		ids = append(ids, r.Header.Get(wire.CallIDHeader))

		close(arrived)
		<-r.Context().Done()
	})
	p.StartBash("agent", agent+"call 'the whole body'")
	<-arrived
	first.stop()

	second := p.serve(func(w http.ResponseWriter, r *http.Request) {
		ids = append(ids, r.Header.Get(wire.CallIDHeader))
		_, _ = io.WriteString(w, "answer to ")
		_, _ = io.Copy(w, r.Body)
	})
	require.Contains(t, p.End("agent").Stdout, "answer to the whole body")
	second.stop()
	require.Len(t, ids, 2)
	require.Equal(t, ids[0], ids[1])
	require.NotEmpty(t, ids[0])
}

// A gateway started again while the old connection still stands takes over, calls in flight included.
func modelNewerWins(t *testing.T, h Harness) {
	p := h.place(t)
	arrived := make(chan struct{})
	old := p.serve(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	p.StartBash("agent", agent+"call x")
	<-arrived

	newer := p.serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "from the newer") })
	require.Contains(t, p.End("agent").Stdout, "from the newer")

	err := <-old.done
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	newer.stop()
}

// An agent that closes its connection cancels the call in the gateway, so that generation stops.
func modelAgentAborts(t *testing.T, h Harness) {
	p := h.place(t)
	arrived, cancelled := make(chan struct{}), make(chan struct{})
	g := p.serve(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(cancelled)
	})
	p.StartBash("agent", agent+"call x")
	<-arrived
	require.NoError(t, p.Kill(t.Context(), "agent"))
	<-cancelled

	select {
	case err := <-g.done:
		require.Fail(t, "the channel ended with the call", "%v", err)
	default:
	}

	g.stop()
}

// A gateway that breaks every try off before its answer shows as a broken connection, not as an answer.
func modelGatewayAborts(t *testing.T, h Harness) {
	p := h.place(t)
	g := p.serve(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	require.Empty(t, p.Bash(agent+"call x").Stdout)
	g.stop()
}

// An answer that breaks in the middle is never ended as if it were whole, nor sent again.
func modelBreaksMidStream(t *testing.T, h Harness) {
	p := h.place(t)

	var (
		calls int
		mu    sync.Mutex
	)

	g := p.serve(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		calls++
		mu.Unlock()

		_, _ = io.WriteString(w, "half of it")
		_ = http.NewResponseController(w).Flush()

		panic(http.ErrAbortHandler)
	})
	out := p.Bash(agent + "call x").Stdout
	require.Contains(t, out, "half of it")
	require.NotContains(t, out, "\r\n0\r\n", "the last chunk of a whole answer")
	g.stop()
	mu.Lock()
	defer mu.Unlock()

	require.Equal(t, 1, calls)
}

func modelTooLarge(t *testing.T, h Harness) {
	p := h.place(t)
	out := p.Bash(
		`exec 3<>/dev/tcp/127.0.0.1/7000; printf 'POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 80000000\r\n\r\n' >&3
		(head -c 80000000 /dev/zero >&3 2>/dev/null) & head -1 <&3; kill %1`,
	)
	require.Contains(t, out.Stdout, "413")
	// One that could never be held is refused by its length, before a byte of it arrives.
	out = p.Bash(
		`exec 3<>/dev/tcp/127.0.0.1/7000; printf 'POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000000\r\n\r\n' >&3; head -1 <&3`,
	)
	require.Contains(t, out.Stdout, "413")
}

func modelManyAtOnce(t *testing.T, h Harness) {
	p := h.place(t)
	g := p.serve(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, "echo:"+string(body)+";")
	})

	out := p.Bash(agent + `for i in $(seq 30); do (call "n$i") > /tmp/out$i & done; wait; cat /tmp/out*`)
	for _, n := range []string{"n1;", "n17;", "n30;"} {
		require.Contains(t, out.Stdout, "echo:"+n)
	}

	require.Equal(t, 30, strings.Count(out.Stdout, "echo:"))
	g.stop()
}

// The model address is the only thing that answers.
func noOtherNetwork(t *testing.T, h Harness) {
	p := h.place(t)
	out := p.Bash(
		`for a in 1.1.1.1/53 169.254.169.254/80 10.0.2.2/80 172.17.0.1/80 192.168.0.1/80; do (exec 3<>/dev/tcp/$a) 2>/dev/null && echo open $a; done
		cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route`,
	)
	require.Equal(t, "lo\n", out.Stdout)
}

func modelCannotPickCallID(t *testing.T, h Harness) {
	p := h.place(t)
	ids := make(chan []string, 1)
	g := p.serve(func(_ http.ResponseWriter, r *http.Request) { ids <- r.Header.Values(wire.CallIDHeader) })
	p.Bash(agent + `call x $'` + wire.CallIDHeader + `: mine\r\n'`)

	got := <-ids
	require.Len(t, got, 1)
	require.NotEqual(t, "mine", got[0])
	g.stop()
}

// Each call says which process made it, whatever the caller claims.
func modelOrigin(t *testing.T, h Harness) {
	p := h.place(t)
	origins := make(chan []string, 1)
	g := p.serve(func(_ http.ResponseWriter, r *http.Request) { origins <- r.Header.Values(wire.OriginHeader) })

	forged := `$'X-Rolloutd-Origin: itself\r\nConnection: X-Rolloutd-Origin\r\n'`
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"itself":   {agent + "call hi " + forged, []string{"itself"}},
		"subshell": {agent + "(call hi " + forged + ")", []string{"subshell/child"}},
		"session": {
			agent + "export -f call; setsid -w bash -c 'call hi " + strings.ReplaceAll(forged, "'", `'"'"'`) + "'",
			[]string{"session/child"},
		},
		"orphan": {
			agent + "export -f call; (setsid bash -c 'while [ $PPID != 1 ] && grep -q \"^PPid:[[:space:]]*[2-9]\" /proc/$$/status; do :; done; call hi " +
				strings.ReplaceAll(forged, "'", `'"'"'`) + "' &)",
			nil,
		},
	} {
		p.StartBash(name, c.script)
		require.Equal(t, c.want, <-origins, name)
	}

	g.stop()
}

// After the first reply a descendant is the agent's only if it made a call before, and runs the same program: a model's
// tools begin later, a shell that waits for them makes no call, and a caller may become another program. An agent that
// starts the same program for each call has helpers.
func modelOriginAfterReply(t *testing.T, h Harness) {
	p := h.place(t)
	origins := make(chan string, 1)
	g := p.serve(func(_ http.ResponseWriter, r *http.Request) { origins <- r.Header.Get(wire.OriginHeader) })

	const other = "cp $BASH /tmp/$name; export -f call; "
	for name, c := range map[string]struct{ script, first, next string }{
		"itself":  {"call hi; call hi", "", ""},
		"later":   {"call hi; (call hi)", "", "/tool/child"},
		"runtime": {"(call hi; call hi)", "/child", "/child"},
		"waits":   {"(until [ -e /tmp/go ]; do :; done; call hi) & call hi; : > /tmp/go; wait", "", "/tool/child"},
		"changed": {other + "(call hi; exec /tmp/$name -c 'call hi')", "/child", "/tool/child"},
		"each":    {"(call hi); (call hi)", "/child", "/helper/child"},
		"nested":  {"(call hi); ( (call hi); : )", "/child", "/tool/child"},
		"another": {other + "(call hi); /tmp/$name -c 'call hi'", "/child", "/tool/child"},
	} {
		p.StartBash(name, agent+"name="+name+"; "+c.script+"\n:")
		require.Equal(t, name+c.first, <-origins, name)
		require.Equal(t, name+c.next, <-origins, name)
	}

	g.stop()
}
