package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const deliveryTag = "Deliveries"

// deliveryRoutes returns the routes that deliver groups to the configured sinks.
func (a *API) deliveryRoutes() []api.Route {
	if a.Deliveries == nil {
		return nil
	}

	return []api.Route{
		api.Post("/groups/{id}/deliver", a.postDelivery, &api.Operation{
			ID:        "deliver_group",
			Tag:       deliveryTag,
			Summary:   "Deliver a finished group to a sink. 409 while it runs",
			Reads:     deliverRequest{},
			NeedsBody: true,
			Answers:   rollout.Delivery{},
			Status:    http.StatusAccepted,
			Refuses: api.BodyErrors(
				api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusConflict)...),
		}),
		api.Get("/groups/{id}/deliveries/{sink}", a.getDelivery, &api.Operation{
			ID:      "get_delivery",
			Tag:     deliveryTag,
			Summary: "Get the state of the delivery of a group to a sink",
			Reads:   deliveryRequest{},
			Answers: rollout.Delivery{},
			Refuses: api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound),
		}),
		api.Get("/deliveries", a.listDeliveries, &api.Operation{
			ID:      "list_deliveries",
			Tag:     deliveryTag,
			Summary: "List the deliveries of the caller's groups: pending ones first, then by age of the group. Operators see all",
			Reads:   deliveryListRequest{},
			Answers: rollout.DeliveryPage{},
			Refuses: api.EngineErrors(http.StatusUnprocessableEntity),
		}),
	}
}

type deliverRequest struct {
	groupRequest
	Sink string `json:"sink" required:"true" description:"name of a sink in the server's configuration"`
}

type deliveryRequest struct {
	groupRequest
	Sink string `path:"sink" description:"name of a sink"`
}

// deliveryListRequest selects deliveries; a missing parameter selects all.
type deliveryListRequest struct {
	Sink       string `query:"sink"`
	State      string `query:"state" enum:"pending,delivered,refused,skipped"`
	ProducerID string `query:"producer_id" description:"id of the producer of the groups"`
	Limit      int    `query:"limit" minimum:"1" maximum:"1000" default:"50" description:"number of deliveries in a page"`
	Cursor     string `query:"cursor" description:"position to continue from: next of the previous page"`
}

func (a *API) postDelivery(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	sink, _ := args["sink"].(string)

	d, err := a.Deliveries.Deliver(r.Context(), rollout.DeliverySpec{GroupID: chi.URLParam(r, "id"), Sink: sink})
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	httpio.WriteJSON(w, http.StatusAccepted, d)
}

func (a *API) getDelivery(w http.ResponseWriter, r *http.Request) {
	d, err := a.Deliveries.Delivery(r.Context(), rollout.DeliverySpec{
		GroupID: chi.URLParam(r, "id"),
		Sink:    chi.URLParam(r, "sink"),
	})
	httpio.WriteAnswer(w, d, err)
}

func (a *API) listDeliveries(w http.ResponseWriter, r *http.Request) {
	q, limit, err := pageOf(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	page, err := a.Deliveries.Deliveries(r.Context(), rollout.DeliveryFilter{
		Sink: q.Get("sink"), State: rollout.DeliveryState(q.Get("state")), ProducerID: q.Get("producer_id"),
		Limit: limit, Cursor: q.Get("cursor"),
	})
	httpio.WriteAnswer(w, page, err)
}
