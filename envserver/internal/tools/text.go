package tools

import (
	"runtime"
	"sync"
	"weak"

	"golang.org/x/sync/singleflight"

	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Text is what a call returned. Nothing in it may be changed: all who are given one rollout's result at a time share one, as long as
// they hold the Text itself and not only its bytes.
type Text struct {
	// JSON is the text itself.
	JSON []byte
	// Form is the text as Options.Form has it.
	Form []byte
}

func (t *Table) text(v any) (*Text, error) {
	raw, err := pyjson.Encode(v)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "write the answer")
	}
	form, err := t.o.Form(raw)
	return &Text{raw, form}, fault.Wrap(fault.Internal, err, "write the answer")
}

// shelf knows the results that somebody is being given. Hundreds may want one of megabytes at the same moment and take it at
// their leisure, so it is encoded once and held once, for as long as anybody holds it and no longer.
type shelf struct {
	making singleflight.Group // by rollout
	mu     sync.Mutex
	texts  map[string]weak.Pointer[Text] // by rollout
}

// Result is a rollout's result as a text. A rollout has one result for ever, so its id stands for it.
func (t *Table) Result(res rollout.Result) (*Text, error) {
	made, err, _ := t.shelf.making.Do(res.ID, func() (any, error) {
		if held := t.shelf.find(res.ID); held != nil {
			return held, nil
		}
		text, err := t.text(res)
		if err == nil {
			t.shelf.put(res.ID, text)
		}
		return text, err
	})
	text, _ := made.(*Text)
	return text, err
}

func (s *shelf) find(id string) *Text {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts[id].Value()
}

func (s *shelf) put(id string, text *Text) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = map[string]weak.Pointer[Text]{}
	}
	s.texts[id] = weak.Make(text)
	runtime.AddCleanup(text, s.forget, id)
}

// forget is called when nobody holds a text any more. There may be another of that id by then.
func (s *shelf) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts[id].Value() == nil {
		delete(s.texts, id)
	}
}
