package trainerapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxPull bounds the groups of an answer.
const maxPull = 1024

// queueName returns the pull queue that a request names.
func queueName(r *http.Request) (string, error) {
	name := chi.URLParam(r, "name")
	return name, rollout.CheckSink(name)
}

func (s *server) pullStatus(w http.ResponseWriter, r *http.Request) {
	name, err := queueName(r)

	n := 0
	if err == nil {
		n, err = s.q.Waiting(name)
	}

	if err != nil {
		s.refuse(w, err)
		return
	}

	s.answer(w, map[string]int{"waiting": n})
}

// push queues a group, a JSON object, under its idempotency key, which is required.
func (s *server) push(w http.ResponseWriter, r *http.Request) {
	name, err := queueName(r)

	key := ""
	if err == nil {
		key, err = keyOf(r)
	}

	if err == nil && key == "" {
		err = fault.Field(keyHeader, "is required")
	}

	if err != nil {
		s.refuse(w, err)
		return
	}

	body, release, ok := s.bodies.read(w, r)
	if !ok {
		return
	}
	defer release()

	if !rawjson.IsObject(body) || !rawjson.Nestable(body) || !json.Valid(body) {
		err = fault.Field("body", "must be a JSON object")
	} else {
		err = s.q.Push(name, queue.Item{Key: key, Payload: body})
	}

	if err != nil {
		s.refuse(w, err)
		return
	}

	s.answer(w, map[string]string{"status": "received"})
}

// pull answers with the oldest groups: {"groups": [{"key": …, "group": …}]}.
func (s *server) pull(w http.ResponseWriter, r *http.Request) {
	name, err := queueName(r)

	most, e := strconv.Atoi(cmp.Or(r.URL.Query().Get("max"), "1"))
	if err == nil && (e != nil || most < 1 || most > maxPull) {
		err = fault.Field("max", "must be a whole number from 1 to %d, got %q", maxPull, r.URL.Query().Get("max"))
	}

	if err != nil {
		s.refuse(w, err)
		return
	}

	lease, err := secondsOf(r)

	var items []queue.Item
	if err == nil {
		items, err = s.q.Pull(name, most, s.bodies.most, lease)
	}

	if err != nil {
		s.refuse(w, err)
		return
	}

	type item struct {
		Key   string          `json:"key"`
		Group json.RawMessage `json:"group"`
	}

	out := []item{}
	for _, i := range items {
		out = append(out, item{i.Key, i.Payload})
	}

	s.answer(w, map[string]any{"groups": out})
}

func (s *server) ackPull(w http.ResponseWriter, r *http.Request) {
	name, err := queueName(r)
	if err != nil {
		s.refuse(w, err)
		return
	}

	var body struct {
		Keys []string `json:"keys"`
	}
	if !s.decode(w, r, &body) {
		return
	}

	n, err := s.q.AckPull(name, body.Keys)
	if err != nil {
		s.refuse(w, err)
		return
	}

	s.answer(w, map[string]int{"acknowledged": n})
}
