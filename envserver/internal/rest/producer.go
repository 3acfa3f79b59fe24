package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/arguments"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/produce"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const producerTag = "Producers"

// producerRoutes returns the routes of producers.
func (a *API) producerRoutes() []api.Route {
	if a.Producers == nil {
		return nil
	}

	changes := api.BodyErrors(api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound)...)

	return []api.Route{
		api.Post("/producers", a.postProducer, &api.Operation{
			ID:        "start_producer",
			Tag:       producerTag,
			Summary:   "Start a producer, which runs groups of a task set as fast as its sink accepts them",
			Reads:     produce.Args{},
			NeedsBody: true,
			Answers:   produce.Started{},
			Status:    http.StatusAccepted,
			Refuses: api.BodyErrors(
				api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusConflict)...),
		}),
		api.Get("/producers", a.listProducers, &api.Operation{
			ID:      "list_producers",
			Tag:     producerTag,
			Summary: "List the caller's producers, running ones first. Operators see all",
			Reads:   producerListRequest{},
			Answers: producer.Page{},
			Refuses: api.EngineErrors(http.StatusUnprocessableEntity),
		}),
		api.Get("/producers/{id}", a.getProducer, &api.Operation{
			ID:      "get_producer",
			Tag:     producerTag,
			Summary: "Get the state of a producer: position, running groups, deliveries and counts",
			Reads:   producerRequest{},
			Answers: producer.State{},
			Refuses: api.EngineErrors(http.StatusNotFound),
		}),
		api.Post("/producers/{id}/change", a.changeProducer, &api.Operation{
			ID:      "change_producer",
			Tag:     producerTag,
			Summary: "Pause, resume or stop a producer, or change its limits",
			Reads:   producerChangeRequest{},
			Answers: producerAnswer{},
			Refuses: changes,
		}),
		api.Post("/producers/{id}/abort", a.abortProducer, &api.Operation{
			ID:      "abort_producer",
			Tag:     producerTag,
			Summary: "Abort a producer and its groups",
			Reads:   producerAbortRequest{},
			Answers: producerAnswer{},
			Refuses: changes,
		}),
	}
}

type producerRequest struct {
	ID string `path:"id" description:"id of the producer"`
}

type producerChangeRequest struct {
	producerRequest
	Paused              *bool `json:"paused,omitempty" description:"true: start no further groups; running groups continue. false: resume"`
	Stop                bool  `json:"stop,omitempty" description:"true: end when the running groups are delivered"`
	Concurrency         *int  `json:"concurrency,omitempty" description:"largest number of rollouts at a time"`
	MaxBatchesOffpolicy *int  `json:"max_batches_offpolicy,omitempty" description:"batches that may be produced ahead of the trainer"`
	TotalSteps          *int  `json:"total_steps,omitempty" description:"training steps after which the producer ends"`
}

type producerAbortRequest struct {
	producerRequest
	Reason string `json:"reason" description:"reason, for display"`
}

type producerAnswer struct {
	ProducerID string `json:"producer_id"`
	Done       bool   `json:"done" description:"true if the producer had already ended; nothing was changed"`
}

// producerListRequest selects producers; a missing parameter selects all.
type producerListRequest struct {
	Status   string `query:"status" enum:"running,done"`
	IDPrefix string `query:"id_prefix" description:"prefix of the ids"`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"50" description:"number of producers in a page"`
	Cursor   string `query:"cursor" description:"position to continue from: next of the previous page"`
}

func (a *API) postProducer(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	p, err := a.Produce.Start(r.Context(), args)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	httpio.WriteJSON(w, http.StatusAccepted, p)
}

func (a *API) listProducers(w http.ResponseWriter, r *http.Request) {
	q, limit, err := pageOf(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	page, err := a.Producers.Producers(r.Context(), rollout.Filter{
		Status:   q.Get("status"),
		IDPrefix: q.Get("id_prefix"),
		Limit:    limit,
		Cursor:   q.Get("cursor"),
	})
	httpio.WriteAnswer(w, page, err)
}

func (a *API) getProducer(w http.ResponseWriter, r *http.Request) {
	p, err := a.Producers.Producer(r.Context(), chi.URLParam(r, "id"))
	httpio.WriteAnswer(w, p, err)
}

func (a *API) changeProducer(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	change, err := producerChange(args)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	id := chi.URLParam(r, "id")
	changed, err := a.Producers.ChangeProducer(r.Context(), id, change)
	httpio.WriteAnswer(w, producerAnswer{id, !changed}, err)
}

// producerChange reads a change and refuses invalid bounds.
func producerChange(args map[string]any) (producer.Change, error) {
	var c producer.Change
	if err := arguments.Decode("a change", args, &c); err != nil {
		return c, err
	}

	return c, c.Apply(producer.Bounds{Concurrency: 1}).Validate()
}

func (a *API) abortProducer(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	id := chi.URLParam(r, "id")
	aborted, err := a.Producers.AbortProducer(r.Context(), id, abortReason(args))
	httpio.WriteAnswer(w, producerAnswer{id, !aborted}, err)
}
