package upstream

import (
	"slices"
	"strings"
	"sync"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/images"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// quirk is a change that an endpoint needs in its requests.
type quirk string

const (
	// OpenAI's reasoning models
	renamedBound    quirk = "max_completion_tokens in place of max_tokens"
	noStreamOptions quirk = "no stream_options"
	noLogprobs      quirk = "no logprobs"

	// engines without salts in their prefix cache
	noCacheSalt quirk = "no cache_salt"

	// engines without versions of weights
	noWeightVersions quirk = "no return_weight_versions"

	// engines other than vLLM
	noResponseMessages quirk = "no enable_response_messages"

	// SGLang's chat/completions
	noStream quirk = "token ids without a stream"

	// SGLang's completions
	byGenerate quirk = "token ids by /generate"

	// where the gateway's own bound exceeds the room in the context
	noMaxTokens quirk = "no max_tokens"

	// models without vision
	noImages quirk = "no images"
)

// withoutPin is the prefix of a quirk: the endpoint does not accept a member that the rollout pins at its
// neutral value.
const withoutPin = "no pinned "

// maxQuirks bounds the endpoints with stored quirks. Learning a forgotten quirk again costs one request.
const maxQuirks = 1 << 10

// endpointQuirks are the detected quirks of endpoints, by address and model.
type endpointQuirks struct {
	mu         sync.Mutex
	byEndpoint map[string][]quirk
}

func (m *endpointQuirks) of(place string) []quirk {
	m.mu.Lock()
	defer m.mu.Unlock()

	return slices.Clone(m.byEndpoint[place])
}

func (m *endpointQuirks) learn(place string, quirks []quirk) {
	// the next prompt leaves different room
	quirks = slices.DeleteFunc(quirks, func(q quirk) bool { return q == noMaxTokens })
	if len(quirks) == 0 {
		return
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	if m.byEndpoint == nil {
		m.byEndpoint = map[string][]quirk{}
	}

	if _, ok := m.byEndpoint[place]; !ok {
		m.makeRoom()
	}

	for _, q := range quirks {
		if !slices.Contains(m.byEndpoint[place], q) {
			m.byEndpoint[place] = append(m.byEndpoint[place], q)
		}
	}
}

func (m *endpointQuirks) forget(place string, q quirk) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if known, ok := m.byEndpoint[place]; ok {
		m.byEndpoint[place] = slices.DeleteFunc(known, func(one quirk) bool { return one == q })
	}
}

// makeRoom removes an arbitrary endpoint if there are too many. m.mu is held.
func (m *endpointQuirks) makeRoom() {
	for place := range m.byEndpoint {
		if len(m.byEndpoint) < maxQuirks {
			return
		}

		delete(m.byEndpoint, place)
	}
}

// apply rewrites the call, and reports whether that changed anything.
func (q quirk) apply(a *dialect.Request) bool {
	if q == byGenerate {
		return q.generate(a)
	}

	o, err := rawjson.ParseObject(a.Body)
	if err != nil {
		// the body is always an object
		return false
	}

	if q == noImages {
		return q.replaceImages(a, o)
	}

	d := &dialect.Draft{Object: o, Changes: a.Changes}
	q.rewrite(d, a)

	before := len(a.Body)
	a.Take(d)

	if len(a.Body) == before {
		return false
	}

	q.note(a)

	return true
}

// rewrite makes the quirk's changes to the members of the call a, in its draft.
func (q quirk) rewrite(d *dialect.Draft, a *dialect.Request) {
	switch q {
	case renamedBound:
		bound, ok := d.Get(dialect.MaxTokens)
		if _, both := d.Get(dialect.MaxCompletionTokens); ok && !both {
			d.Set(dialect.MaxCompletionTokens, slices.Clone(bound))
		}

		d.Remove(dialect.MaxTokens)
	case noMaxTokens:
		d.Restore(dialect.MaxTokens)
	case noStreamOptions:
		d.Remove(dialect.StreamOptions)
	case noLogprobs:
		d.Remove("logprobs")
		d.Restore(dialect.Include)

		if a.API == reply.Responses {
			d.Restore("top_logprobs")
		} else {
			d.Remove("top_logprobs")
		}
	case noCacheSalt:
		d.Remove(dialect.CacheSalt)
	case noWeightVersions:
		d.Remove(dialect.ReturnVersions)
	case noResponseMessages:
		d.Restore(dialect.ResponseMessages)
	case noStream:
		d.Remove("stream")
		d.Remove(dialect.StreamOptions)
	default:
		member, ok := strings.CutPrefix(string(q), withoutPin)
		if ok && slices.Contains(a.Pins, dialect.Pin{Member: member, Neutral: true}) {
			d.Remove(member)
		}
	}
}

// imageText is what a model without vision reads in the place of an image. It has none of the words of refusesImages.
const imageText = "ERROR: cannot read the image, because this model sees no images. Inform the user."

// replaceImages puts a text in the place of each image. Changes does not have it: that would double a conversation
// with its images in each record.
func (q quirk) replaceImages(a *dialect.Request, o *rawjson.Object) bool {
	if a.Images != nil && *a.Images || images.Replace(a.API, o, imageText) == 0 {
		return false
	}

	a.Body = o.Bytes()
	q.note(a)

	return true
}

// generate makes the call use SGLang's own API.
func (q quirk) generate(a *dialect.Request) bool {
	if !takesGenerate(a) {
		return false
	}

	a.ByGenerate = true
	q.note(a)

	return true
}

// revert makes the call use the API as it is.
func (q quirk) revert(a *dialect.Request) {
	a.ByGenerate, a.Fixes = false, slices.DeleteFunc(a.Fixes, func(fix string) bool { return fix == q.fix() })
}

// note adds the quirk to those of the call, once.
func (q quirk) note(a *dialect.Request) {
	if fix := q.fix(); !slices.Contains(a.Fixes, fix) {
		a.Fixes = append(a.Fixes, fix)
	}
}

// fix returns what the quirk changes, for a result.
func (q quirk) fix() string {
	switch q {
	case renamedBound:
		return "renamed max_tokens -> max_completion_tokens"
	case noStream:
		return "set stream=false"
	case byGenerate:
		return "called /generate"
	case noImages:
		return "replaced images by a text"
	default:
		member := strings.TrimPrefix(strings.TrimPrefix(string(q), withoutPin), "no ")
		return "dropped " + member
	}
}
