package trainerapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/fault"
)

type registerEnvBody struct {
	MaxTokens *int     `json:"max_token_length"`
	Name      *string  `json:"desired_name"`
	Weight    *float64 `json:"weight"`
	GroupSize *int     `json:"group_size"`
	Minimum   *float64 `json:"min_batch_allocation"`
}

const maxName = 200

func (b registerEnvBody) env() (queue.Env, error) {
	err := errors.Join(
		required("max_token_length", b.MaxTokens),
		required("desired_name", b.Name),
		required("weight", b.Weight),
		required("group_size", b.GroupSize),
	)
	if err != nil {
		return queue.Env{}, err
	}

	if len(*b.Name) > maxName {
		return queue.Env{}, fault.Field("desired_name", "must have at most %d bytes, got %d", maxName, len(*b.Name))
	}

	err = errors.Join(small("max_token_length", *b.MaxTokens), small("group_size", *b.GroupSize))

	return queue.Env{
		Name:      *b.Name,
		MaxTokens: *b.MaxTokens,
		Weight:    *b.Weight,
		GroupSize: *b.GroupSize,
		Minimum:   b.Minimum,
	}, err
}

func (s *server) registerEnv(w http.ResponseWriter, r *http.Request) {
	var body registerEnvBody
	if !s.decode(w, r, &body) {
		return
	}

	env, err := body.env()

	var got queue.Registered

	ok := false
	if err == nil {
		got, ok, err = s.q.RegisterEnv(env)
	}

	switch {
	case err != nil:
		s.refuse(w, err)
	case !ok:
		s.answer(w, map[string]string{"status": "wait for trainer to start"})
	default:
		s.answer(w, map[string]any{
			"status":              "success",
			"env_id":              got.ID,
			"wandb_name":          got.Name,
			"checkpoint_dir":      got.Dir,
			"starting_step":       got.Step,
			"checkpoint_interval": got.Saves,
			"num_steps":           got.Steps,
		})
	}
}

type envBody struct {
	ID *int `json:"env_id"`
}

func (s *server) disconnectEnv(w http.ResponseWriter, r *http.Request) {
	var body envBody
	if !s.decode(w, r, &body) {
		return
	}

	err := required("env_id", body.ID)

	ok := false
	if err == nil {
		ok, err = s.q.DisconnectEnv(*body.ID)
	}

	switch {
	case err != nil:
		s.refuse(w, err)
	case !ok:
		s.answer(w, map[string]string{
			"status": "failure",
			"error":  "no environment " + strconv.Itoa(*body.ID) + " is registered",
		})
	default:
		s.answer(w, map[string]string{"status": "success"})
	}
}

// statusEnv reads the environment's id from the body, as Atropos does, or from the query.
func (s *server) statusEnv(w http.ResponseWriter, r *http.Request) {
	var body envBody
	if id, err := strconv.Atoi(r.URL.Query().Get("env_id")); err == nil {
		body.ID = &id
	} else if !s.decode(w, r, &body) {
		return
	}

	if err := required("env_id", body.ID); err != nil {
		s.refuse(w, err)
		return
	}

	st, err := s.q.StatusOf(*body.ID)
	if err != nil {
		s.refuse(w, err)
		return
	}

	s.answer(w, map[string]any{
		"current_step":         st.Step,
		"queue_size":           st.Queue,
		"unallocated_fraction": st.Unallocated,
		"self_queue_size":      st.Own,
		"max_group_size":       st.Largest,
		"env_weight":           st.Weight,
	})
}

// keyHeader carries the idempotency key of a submission.
const keyHeader = "Idempotency-Key"

// maxKey bounds it, in bytes.
const maxKey = 200

func keyOf(r *http.Request) (string, error) {
	key := r.Header.Get(keyHeader)
	if len(key) > maxKey || bytes.ContainsAny([]byte(key), "\r\n") {
		return "", fault.Field(keyHeader, "must have at most %d bytes and no line breaks", maxKey)
	}

	return key, nil
}

// addGroups queues the groups that parse finds in a request's body under its idempotency key. ok is false where the
// request is refused, which it answers.
func (s *server) addGroups(
	w http.ResponseWriter,
	r *http.Request,
	parse func(body []byte, key string) ([]queue.Submission, error),
) (added []queue.Added, ok bool) {
	key, err := keyOf(r)
	if err != nil {
		s.refuse(w, err)
		return nil, false
	}

	body, release, ok := s.bodies.read(w, r)
	if !ok {
		return nil, false
	}
	defer release()

	// a trainer could not read the batch
	if !utf8.Valid(body) {
		s.refuse(w, fault.Field("body", "must be UTF-8"))
		return nil, false
	}

	groups, err := parse(body, key)
	if err == nil {
		added, err = s.q.Add(groups...)
	}

	if err != nil {
		s.refuse(w, err)
		return nil, false
	}

	return added, true
}

func (s *server) scoredData(w http.ResponseWriter, r *http.Request) {
	added, ok := s.addGroups(w, r, func(body []byte, key string) ([]queue.Submission, error) {
		g, err := parseGroup(body)
		if err != nil {
			return nil, err
		}

		return []queue.Submission{{Key: key, Env: g.env, Sequences: g.sequences(), Payload: g.payload()}}, nil
	})
	if !ok {
		return
	}

	if added[0].Duplicate {
		w.Header().Set("Idempotency-Replayed", "true")
	}

	if added[0].Buffered {
		s.answer(w, map[string]any{"status": "buffered", "buffer_size": added[0].Waiting})
		return
	}

	s.answer(w, map[string]any{"status": "received"})
}

func (s *server) scoredDataList(w http.ResponseWriter, r *http.Request) {
	added, ok := s.addGroups(w, r, parseList)
	if !ok {
		return
	}

	out := map[string]any{"status": "received", "groups_processed": len(added)}
	buffered := 0

	for _, a := range added {
		if a.Buffered {
			buffered++
			out["buffered"], out["last_buffer_size"] = buffered, a.Waiting
		}
	}

	s.answer(w, out)
}

// maxGroups bounds a list of groups.
const maxGroups = 4096

// parseList parses a list of groups. The key of each is the list's with its index.
func parseList(body []byte, key string) ([]queue.Submission, error) {
	r := newReader(body)

	var out []queue.Submission

	_, err := r.list("body", maxGroups, func(n int) error {
		g, err := r.group()
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "group %d", n)
		}

		one := queue.Submission{Env: g.env, Sequences: g.sequences(), Payload: g.payload()}
		if key != "" {
			one.Key = fmt.Sprintf("%s#%d", key, n)
		}

		out = append(out, one)

		return nil
	})
	if err != nil {
		return nil, err
	}

	return out, r.end()
}
