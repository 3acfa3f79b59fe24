package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/continuation"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/audit"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/images"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// Reasons why an audit skips a turn.
const (
	// not trained on
	skipUntrained = "not trained on"
	// the endpoint has other weights now than the turn names
	skipOlder = "older weights"
	// weights were replaced meanwhile, or the endpoint is paused
	skipPaused = "paused"
	// the log probabilities are those of another distribution than the model's at temperature 1
	skipSampling = "sampling parameters"
	skipImages   = "images"
	skipLong     = "too many tokens"
	// the endpoint refused, or cannot score tokens
	skipUnscored = "not scored"
)

// Results of audited turns: label values.
const (
	auditFits    = "fits"
	auditMarked  = "marked"
	auditSkipped = "skipped"
)

const (
	defaultAuditTurns = 32
	maxAuditTurns     = 1024
	// defaultAuditLimit is far above what numerics change between decoding and scoring a prompt, in nats.
	defaultAuditLimit = 0.1
	// defaultAuditTokens bounds what vLLM scores at once: it holds the logits of all tokens of a step, which its memory
	// profile does not count, and an engine without that memory dies.
	defaultAuditTokens = 4096
	// scoreTime bounds the request for one turn.
	scoreTime = time.Minute
	// maxAudits bounds the kept reports; those of the configuration's endpoints are few.
	maxAudits = 1024
)

// audits are the latest reports, by the name of the upstream.
type audits struct {
	// turns for the background audit
	offered chan candidate

	mu sync.Mutex
	of map[string]gatewayapi.AuditReport
}

func (a *audits) storeReport(name string, r gatewayapi.AuditReport) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.of == nil || len(a.of) >= maxAudits {
		a.of = map[string]gatewayapi.AuditReport{}
	}

	a.of[name] = r
}

// LatestAudit returns the latest report on an upstream; fault.NotFound: there is none since the gateway began.
func (s *Server) LatestAudit(name string) (gatewayapi.AuditReport, error) {
	s.audits.mu.Lock()
	defer s.audits.mu.Unlock()

	report, ok := s.audits.of[name]
	if !ok {
		return report, fault.New(fault.NotFound, "no audit of model endpoint %q since the gateway began", name)
	}

	return report, nil
}

// auditRun is one audit.
type auditRun struct {
	gatewayapi.AuditRequest
	report     gatewayapi.AuditReport
	byVersion  map[string]*audit.Difference
	turnsOf    map[string]int
	difference audit.Difference
}

func newAuditRun(in gatewayapi.AuditRequest) *auditRun {
	run := &auditRun{AuditRequest: in, byVersion: map[string]*audit.Difference{}, turnsOf: map[string]int{}}
	run.report.Skipped = map[string]int{}

	return run
}

// Audit scores the latest turns of open routes to an upstream again, and marks those that do not fit the weights that
// they name. The requests wait for admission as calls do. It reads at most eight times as many turns as it scores.
func (s *Server) Audit(ctx context.Context, name string, in gatewayapi.AuditRequest) (gatewayapi.AuditReport, error) {
	if in.Turns < 0 || in.Turns > maxAuditTurns {
		return gatewayapi.AuditReport{}, fault.Field("turns", "must be from 1 to %d, got %d", maxAuditTurns, in.Turns)
	}

	if !(in.Limit >= 0) || in.Tokens < 0 {
		return gatewayapi.AuditReport{}, fault.New(fault.Invalid, "limit and tokens must not be negative")
	}

	in.Turns = cmp.Or(in.Turns, defaultAuditTurns)
	in.Limit, in.Tokens = cmp.Or(in.Limit, defaultAuditLimit), cmp.Or(in.Tokens, defaultAuditTokens)

	group, err := s.upstreams.ForNamed(name, func(*limits.Admission) {})
	if err != nil {
		return gatewayapi.AuditReport{}, err
	}

	run := newAuditRun(in)

	for _, c := range s.latestTurns(group, in.Turns) {
		if run.report.Turns == in.Turns || ctx.Err() != nil {
			break
		}

		run.turn(ctx, c)
	}

	report := run.finish()
	s.audits.storeReport(name, report)

	return report, context.Cause(ctx)
}

// candidate is a turn that may be scored again.
type candidate struct {
	*route
	entry trace.Entry
}

// latestTurns returns the latest whole turns of the agents of a group, eight times as many as will be scored.
func (s *Server) latestTurns(group limits.Group, turns int) []candidate {
	const spare = 8

	s.mu.Lock()
	routes := slices.Collect(maps.Values(s.routes))
	s.mu.Unlock()

	var all []candidate

	for _, r := range routes {
		if r.trace == nil || !slices.Contains(group, r.admission) {
			continue
		}

		for _, e := range r.trace.Entries() {
			if e.Whole && e.Kind == rollout.KindAgent {
				all = append(all, candidate{r, e})
			}
		}
	}

	slices.SortFunc(all, func(a, b candidate) int { return b.entry.Ended.Compare(a.entry.Ended) })

	return all[:min(len(all), spare*turns)]
}

// turn scores one turn again and notes the result.
func (a *auditRun) turn(ctx context.Context, c candidate) {
	diff, version, skip := a.score(ctx, c)
	if skip != "" {
		a.skip(c, skip)
		return
	}

	if a.byVersion[version] == nil {
		a.byVersion[version] = &audit.Difference{}
	}

	a.byVersion[version].Add(diff)
	a.turnsOf[version]++
	a.report.Turns++
	a.difference.Add(diff)

	result := auditFits
	if diff.MeanAbs() > a.Limit {
		result = auditMarked

		a.report.Marked = append(a.report.Marked, gatewayapi.AuditedTurn{
			Route: c.ID, Turn: c.entry.Turn, Version: version, MeanAbs: diff.MeanAbs(),
		})
		c.markTurn(c.entry.Turn, trajectory.Mark{Drop: a.Drop, Flaw: fmt.Sprintf(
			"the log probabilities do not fit the weights %q: scored again, they differ by %.3g nats on average",
			version, diff.MeanAbs(),
		)})
	}

	c.report.audited.WithLabelValues(c.Model.Label(), result).Inc()
	c.report.showAudit(c.Model.Label(), a.difference)
}

// skip counts a turn that is not scored again.
func (a *auditRun) skip(c candidate, why string) {
	a.report.Skipped[why]++
	c.report.audited.WithLabelValues(c.Model.Label(), auditSkipped).Inc()
}

func (r *reporter) showAudit(endpoint string, d audit.Difference) {
	r.difference.WithLabelValues(endpoint, "mean_abs").Set(d.MeanAbs())
	r.difference.WithLabelValues(endpoint, "k1").Set(d.K1())
	r.difference.WithLabelValues(endpoint, "k3").Set(d.K3())
}

func (a *auditRun) finish() gatewayapi.AuditReport {
	report := a.report
	report.Versions = []gatewayapi.AuditVersion{}
	report.Skipped, report.Marked = maps.Clone(a.report.Skipped), slices.Clone(a.report.Marked)

	for _, version := range slices.Sorted(maps.Keys(a.byVersion)) {
		d := a.byVersion[version]
		report.Versions = append(report.Versions, gatewayapi.AuditVersion{
			Version: version, Turns: a.turnsOf[version], Tokens: d.Tokens(),
			MeanAbs: d.MeanAbs(), K1: d.K1(), K3: d.K3(),
		})
	}

	return report
}

// score scores a turn again. skip is why it cannot; "": the turn was compared.
func (a *auditRun) score(ctx context.Context, c candidate) (_ audit.Difference, version, skip string) {
	rec, err := c.trace.Read(c.entry)
	if err != nil {
		c.log.Info("turn not audited", "turn", c.entry.Turn, "error", err)
		return audit.Difference{}, "", skipUnscored
	}

	if skip := c.comparable(rec, a.Tokens); skip != "" {
		return audit.Difference{}, "", skip
	}

	began := time.Now()
	engine, before := c.otherEngine(rec.Engine), c.admission.Weights()

	rescored, named, err := c.rescore(ctx, engine, rec, a.Tokens)
	switch now := c.weightsNow(engine, named); {
	case c.admission.PausedSince(began), c.admission.Weights() != before:
		return audit.Difference{}, "", skipPaused
	case errors.Is(err, errTooLong):
		return audit.Difference{}, "", skipLong
	case err != nil:
		c.log.Info("turn not audited", "turn", c.entry.Turn, "error", err)
		return audit.Difference{}, "", skipUnscored
	case now != rec.ModelVersion:
		return audit.Difference{}, "", skipOlder
	}

	return audit.Compare(rec.Logprobs, rescored), rec.ModelVersion, ""
}

// comparable returns why a turn cannot be compared; "": it can.
func (c candidate) comparable(rec *trace.Record, most int) string {
	n := len(rec.TokenIDs)
	named := rec.ModelVersion != "" && rec.ModelVersion != reply.Unlabelled

	switch {
	case rec.Eval,
		rec.Constrained != "",
		len(rec.Flaws) > 0,
		n == 0,
		len(rec.Logprobs) != n,
		len(rec.PromptTokenIDs) == 0:
		return skipUntrained
	case images.Count(reply.API(rec.API), rec.Request) > 0:
		return skipImages
	case n > most:
		return skipLong
	case !c.admission.Paused().IsZero():
		return skipPaused
	case !named && c.admission.PausedSince(rec.Began):
		return skipOlder
	case rec.SamplingMask != nil, c.probeReport().LogprobsMode != rollout.LogprobsRaw && !neutral(rec.Request):
		return skipSampling
	}

	return ""
}

// neutral reports whether a call sampled from the model's own distribution.
func neutral(request []byte) bool {
	for member, value := range map[string]float64{
		"temperature": 1, "top_p": 1, "min_p": 0, "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0,
	} {
		var given *float64

		raw := rawjson.MemberOf(request, member)
		if len(raw) > 0 && (json.Unmarshal(raw, &given) != nil || given != nil && *given != value) {
			return false
		}
	}

	var top *int

	raw := rawjson.MemberOf(request, "top_k")

	return len(raw) == 0 || json.Unmarshal(raw, &top) == nil && (top == nil || *top <= 0)
}

// otherEngine returns an engine of the endpoint that did not sample the turn, if there is one: it finds an engine whose
// weights were not replaced.
func (r *route) otherEngine(sampled string) string {
	for _, engine := range r.engines {
		if upstream.NameOf(engine) != sampled {
			return engine
		}
	}

	return r.engines[0]
}

// weightsNow returns the version of an engine's weights as a turn of it would have it; named is that of its last reply.
func (r *route) weightsNow(engine, named string) string {
	last := cmp.Or(named, r.upstream.Version(engine))
	if last == "" || last == reply.Unlabelled {
		return cmp.Or(r.admission.Weights(), last)
	}

	return last
}

var errTooLong = errors.New("more tokens than an audit scores at once")

// rescore asks an engine for the log probabilities of a turn's tokens, which it computes with an empty cache. It
// returns the version that the engine names; "": none.
func (c candidate) rescore(
	ctx context.Context,
	engine string,
	rec *trace.Record,
	most int,
) (logprobs []float64, version string, err error) {
	pass, err := c.admission.Enter(ctx, "audit")
	if err != nil {
		return nil, "", err
	}
	defer c.admission.Leave(pass)

	ctx, cancel := context.WithTimeout(pass.Ctx, scoreTime)
	defer cancel()

	turn := audit.Turn{
		Model:      rawjson.TextOf(rawjson.MemberOf(rec.Request, "model")),
		Prompt:     rec.PromptTokenIDs,
		Completion: rec.TokenIDs,
	}
	salt := "rolloutd-audit-" + rand.Text()

	// SGLang scores the completion alone, and no other engine has the path
	raw, release, err := c.askEngine(ctx, engine, audit.GeneratePath, turn.Generate(salt))
	if err == nil {
		defer release()
		return turn.ReadGenerate(raw)
	}

	if fault.Is(err, fault.Unavailable) {
		return nil, "", err
	}

	if len(turn.Prompt)+len(turn.Completion) > most {
		return nil, "", errTooLong
	}

	raw, release, err = c.askEngine(ctx, engine, audit.CompletionsPath, turn.Completions(salt))
	if err != nil {
		return nil, "", err
	}
	defer release()

	return turn.ReadCompletions(raw)
}

func (c candidate) askEngine(ctx context.Context, engine, path string, body []byte) ([]byte, func(), error) {
	return c.upstream.Ask(ctx, upstream.Spec{
		Request:     &dialect.Request{Dialect: dialect.Chat(), Body: body},
		Engines:     []string{engine},
		Key:         c.key,
		ClientGiven: c.Model.ClientGiven(),
		Admission:   c.admission,
		Memory:      c.memory,
	}, path)
}

// markTurn stores what an audit found wrong with a turn.
func (r *route) markTurn(turn int, m trajectory.Mark) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.journal.Marks == nil {
		r.journal.Marks = map[int]trajectory.Mark{}
	}

	r.journal.Marks[turn] = m
	r.saveOrLog("mark of an audit")
}

// marks returns what audits of both kinds found, by turn.
func (r *route) marks() map[int][]trajectory.Mark {
	r.mu.Lock()
	defer r.mu.Unlock()

	all := map[int][]trajectory.Mark{}
	for turn, m := range r.journal.Marks {
		all[turn] = append(all[turn], m)
	}

	for _, turn := range r.journal.Unlike {
		all[turn] = append(all[turn], trajectory.Mark{Flaw: continuation.UnlikeTemplate})
	}

	return all
}
