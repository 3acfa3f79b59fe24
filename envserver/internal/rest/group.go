package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const groupTag = "Groups"

// groupRoutes returns the routes of groups of rollouts.
func (a *API) groupRoutes() []api.Route {
	if a.Groups == nil {
		return nil
	}

	return []api.Route{
		api.Post("/groups", a.postGroup, &api.Operation{
			ID:        "start_group",
			Tag:       groupTag,
			Summary:   "Start a group of rollouts of one task. The body has the arguments of the tool run_group",
			Reads:     tools.GroupArgs{},
			NeedsBody: true,
			Answers:   rollout.GroupState{},
			Status:    http.StatusAccepted,
			Refuses:   api.BodyErrors(api.EngineErrors(http.StatusUnprocessableEntity, http.StatusConflict)...),
		}),
		api.Get("/groups", a.listGroups, &api.Operation{
			ID:      "list_groups",
			Tag:     groupTag,
			Summary: "List the caller's groups, running ones first. Operators see all",
			Reads:   groupListRequest{},
			Answers: rollout.GroupPage{},
			Refuses: api.EngineErrors(http.StatusUnprocessableEntity),
		}),
		api.Get("/groups/{id}", a.getGroup, &api.Operation{
			ID:      "get_group",
			Tag:     groupTag,
			Summary: "Get the state of a group: its rollouts, their rewards, and statistics of the rewards",
			Reads:   groupRequest{},
			Answers: tools.GroupAnswer{},
			Refuses: api.EngineErrors(http.StatusNotFound),
		}),
		a.groupTrajectoryRoute(),
		api.Post("/groups/{id}/abort", a.abortGroup, &api.Operation{
			ID:      "abort_group",
			Tag:     groupTag,
			Summary: "Abort a group and its rollouts",
			Reads:   groupAbortRequest{},
			Answers: groupAbortAnswer{},
			Refuses: api.BodyErrors(api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound)...),
		}),
	}
}

type groupRequest struct {
	ID string `path:"id" description:"id of the group"`
}

type groupAbortRequest struct {
	groupRequest
	Reason string `json:"reason" description:"reason, for display"`
}

type groupAbortAnswer struct {
	GroupID string `json:"group_id"`
	Aborted bool   `json:"aborted" description:"false if the group had already ended"`
}

// groupListRequest selects groups; a missing parameter selects all.
type groupListRequest struct {
	Status   string `query:"status" enum:"running,done"`
	TaskID   string `query:"task_id"`
	IDPrefix string `query:"id_prefix" description:"prefix of the ids"`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"50" description:"number of groups in a page"`
	Cursor   string `query:"cursor" description:"position to continue from: next of the previous page"`
}

func (a *API) postGroup(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	g, err := a.Env.Tools.StartGroup(r.Context(), args)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	httpio.WriteJSON(w, http.StatusAccepted, g)
}

// arguments reads a body that is a JSON object. If ok is false, the request has been answered.
func (a *API) arguments(w http.ResponseWriter, r *http.Request) (args map[string]any, ok bool) {
	return httpio.Decode(a.Bodies, w, r, httpio.Object)
}

func (a *API) listGroups(w http.ResponseWriter, r *http.Request) {
	q, limit, err := pageOf(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	page, err := a.Groups.Groups(r.Context(), rollout.Filter{
		Status:   q.Get("status"),
		TaskID:   q.Get("task_id"),
		IDPrefix: q.Get("id_prefix"),
		Limit:    limit,
		Cursor:   q.Get("cursor"),
	})
	httpio.WriteAnswer(w, page, err)
}

func (a *API) getGroup(w http.ResponseWriter, r *http.Request) {
	g, err := a.Groups.Group(r.Context(), chi.URLParam(r, "id"))
	httpio.WriteAnswer(w, tools.GroupAnswerOf(g), err)
}

func (a *API) abortGroup(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	id := chi.URLParam(r, "id")
	aborted, err := a.Groups.AbortGroup(r.Context(), id, abortReason(args))
	httpio.WriteAnswer(w, groupAbortAnswer{id, aborted}, err)
}
