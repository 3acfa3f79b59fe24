package envserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/web"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
)

// maxSavedBytes bounds a saved page: what comes after is not in it, and the page says so where it would be.
const maxSavedBytes = 256 << 20

// savedPageRoutes are the routes to pages that open without a server.
func (s *Server) savedPageRoutes() []api.Route {
	type request struct {
		ID string `path:"id" description:"id of the rollout or group"`
	}

	operation := func(id, what string) *api.Operation {
		return &api.Operation{
			ID:      id,
			Tag:     webTag,
			Summary: "Get the page of a finished " + what + " as one HTML file, which opens without a server. 409 while it runs",
			Reads:   request{},
			Answers: api.Media("text/html; charset=utf-8"),
			Refuses: api.EngineErrors(http.StatusNotFound, http.StatusConflict),
		}
	}
	all := []api.Route{api.Get("/rollouts/{id}/page", s.rolloutPage, operation("get_rollout_page", "rollout"))}

	type selection struct {
		IDs string `query:"ids" required:"true" description:"ids of finished rollouts, with commas, at most 100"`
	}

	all = append(all, api.Get("/page", s.selectionPage, &api.Operation{
		ID:      "get_selection_page",
		Tag:     webTag,
		Summary: "Get the pages of finished rollouts, below a list of them, as one HTML file, which opens without a server",
		Reads:   selection{},
		Answers: api.Media("text/html; charset=utf-8"),
		Refuses: api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusConflict),
	}))

	if s.o.Groups != nil {
		all = append(all, api.Get("/groups/{id}/page", s.groupPage, operation("get_group_page", "group")))
	}

	return all
}

func (s *Server) rolloutPage(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")

	state, err := s.o.Rollouts.State(r.Context(), id)
	if err == nil && !state.Done() {
		err = fault.New(fault.Conflict, "rollout %s is not done yet (%s)", id, state.Phase)
	}

	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	s.savePage(w, r, id, "rollouts/"+url.PathEscape(id), []string{id})
}

// selectionPage saves the list of some rollouts, with their pages.
func (s *Server) selectionPage(w http.ResponseWriter, r *http.Request) {
	ids := strings.Split(r.URL.Query().Get("ids"), ",")

	page, err := s.o.Rollouts.List(r.Context(), rollout.Filter{IDs: ids, Limit: rollout.MaxIDs})
	if err == nil && len(page.Rollouts) < len(ids) {
		err = fault.New(fault.NotFound, "of these %d rollouts %d have ended and are known", len(ids), len(page.Rollouts))
	}

	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	list := "rollouts?" + url.Values{"ids": {strings.Join(ids, ",")}}.Encode()
	s.savePage(w, r, fmt.Sprintf("%d rollouts", len(ids)), list, ids)
}

func (s *Server) groupPage(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")

	state, err := s.o.Groups.Group(r.Context(), id)
	if err == nil && state.Outcome == "" {
		err = fault.New(fault.Conflict, "group %s is not done yet", id)
	}

	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	var members []string
	for _, m := range state.Members {
		members = append(members, m.RolloutID)
	}

	s.savePage(w, r, id, "groups/"+url.PathEscape(id), members)
}

// savePage writes the page with the answer of each request that it makes about these rollouts.
func (s *Server) savePage(w http.ResponseWriter, r *http.Request, id, path string, rollouts []string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// a browser saves it: opened from here it would be a page of this server
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename*=UTF-8''%s.html", url.PathEscape(id)))

	page, err := web.NewSavedPage(w, "#/"+path)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	saved := savedPage{page, s, r}
	if err = saved.answers(path, rollouts); err == nil {
		err = page.Close()
	}

	if err != nil {
		// the file has begun: only a connection that breaks tells the client
		panic(http.ErrAbortHandler)
	}
}

// savedPage fills a page with answers of the server's own routes, in the name of the caller of a request.
type savedPage struct {
	page    *web.SavedPage
	server  *Server
	request *http.Request
}

func (p savedPage) answers(path string, rollouts []string) error {
	if err := p.answer(path, io.Discard); err != nil {
		return err
	}

	for _, id := range rollouts {
		if err := p.rollout(id); err != nil {
			return err
		}
	}

	return nil
}

// rollout adds what the page of a rollout asks for: what is seen first comes first.
func (p savedPage) rollout(id string) error {
	path := "rollouts/" + url.PathEscape(id)

	for _, part := range []string{
		"", "/result?part=head", "/events", "/messages",
		"/logs/agent", "/logs/verifier", "/logs/proxy", "/logs/network",
	} {
		if err := p.answer(path+part, io.Discard); err != nil {
			return err
		}
	}

	long, err := p.turns(path)
	if err != nil {
		return err
	}

	if err = p.answer(path+"/result", io.Discard); err != nil {
		return err
	}

	if err = p.tokens(path); err != nil {
		return err
	}

	for _, text := range long {
		if err = p.rest(text); err != nil {
			return err
		}
	}

	return p.alternatives(path, id)
}

// maxSavedAlternatives bounds the alternatives of a rollout's tokens in a page, in bytes before they are compressed.
const maxSavedAlternatives = 32 << 20

// savedAlternatives are those of a part of a reply, as REST answers; nil: they are left out.
type savedAlternatives struct {
	turn, start int
	body        []byte
}

// alternatives adds those of all tokens, where they were recorded. Beyond the bound the page says that it lacks them.
func (p savedPage) alternatives(path, id string) error {
	all, err := p.readAlternatives(id)
	if err != nil {
		return err
	}

	for _, a := range all {
		if p.page.Size() > maxSavedBytes {
			return nil
		}

		at := fmt.Sprintf("%s/turns/%d/alternatives?start=%d", path, a.turn, a.start)

		_, err := p.page.Answer(at, io.Discard, func(w http.ResponseWriter) {
			if a.body == nil {
				httpio.WriteRefusal(w, fault.New(fault.NotFound, "this file has no room for the alternatives: ask the server"))
				return
			}

			_, _ = w.Write(a.body)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// readAlternatives reads them from the trace. They are written when its memory is free again.
func (p savedPage) readAlternatives(id string) (all []savedAlternatives, err error) {
	room, err := p.server.exports.Acquire(p.request.Context(), exportmemory.Sequences)
	if err != nil {
		return nil, err
	}
	defer room.Release()

	lines, err := p.server.o.Rollouts.Open(p.request.Context(), id, "trace")
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	defer lines.Close()

	size := 0

	err = tokens.EachAlternatives(lines, func(turn int, a tokens.Alternatives) error {
		body, err := json.Marshal(a)
		if size += len(body); size > maxSavedAlternatives {
			body = nil
		}

		all = append(all, savedAlternatives{turn, a.Start, body})

		return err
	})
	// the trace cannot be read to its end, or has a line that is too long: the page has what comes before
	if fault.Is(err, fault.Internal) || fault.Is(err, fault.Exhausted) {
		err = nil
	}

	return all, err
}

// longText is a text of which a page of turns has the beginning.
type longText struct {
	path  string
	bytes int
}

// turns adds all pages of the conversation, and returns the texts that they do not have whole.
func (p savedPage) turns(path string) ([]longText, error) {
	var long []longText

	for after := 0; ; {
		var page transcript.Page
		if err := p.decode(fmt.Sprintf("%s/turns?after=%d", path, after), &page); err != nil {
			return nil, err
		}

		for _, turn := range page.Turns {
			for i, part := range turn.Parts {
				if part.Bytes > 0 {
					long = append(long, longText{fmt.Sprintf("%s/turns/%d/parts/%d", path, turn.Turn, i), len(part.Text)})
				}
			}
		}

		if after = page.Next; after == 0 {
			return long, nil
		}
	}
}

// rest adds the ranges of a text after its beginning.
func (p savedPage) rest(text longText) error {
	for offset := text.bytes; ; {
		var part transcript.Range
		if err := p.decode(fmt.Sprintf("%s?offset=%d", text.path, offset), &part); err != nil {
			return err
		}

		if offset = part.Next; offset == 0 {
			return nil
		}
	}
}

// tokens adds all tokens of all sequences, in the windows in which the page reads them.
func (p savedPage) tokens(path string) error {
	window := func(sequence, start int) (tokens.View, error) {
		var view tokens.View

		return view, p.decode(
			fmt.Sprintf("%s/tokens?sequence=%d&start=%d&limit=%d", path, sequence, start, tokens.DefaultTokens),
			&view,
		)
	}

	first, err := window(0, 0)
	if err != nil {
		return err
	}

	for i, sequence := range first.Sequences {
		for start := 0; start < sequence.Length; start += tokens.DefaultTokens {
			if i == 0 && start == 0 {
				continue
			}

			if _, err = window(i, start); err != nil {
				return err
			}
		}
	}

	return nil
}

// decode adds an answer, and decodes it into v if it is no error.
func (p savedPage) decode(path string, v any) error {
	var body bytes.Buffer

	if err := p.answer(path, &body); err != nil || body.Len() == 0 {
		return err
	}

	// an error of the server is JSON too, with other fields
	return json.Unmarshal(body.Bytes(), v)
}

// answer adds the answer to a request; seen gets its body too. A page that is full gets no more.
func (p savedPage) answer(path string, seen io.Writer) error {
	if p.page.Size() > maxSavedBytes {
		return nil
	}

	target, err := url.Parse("/" + path)
	if err != nil {
		return err
	}

	// without what the router of the outer request has left in the context
	ctx := context.WithValue(p.request.Context(), chi.RouteCtxKey, nil)

	r := p.request.Clone(ctx)
	r.URL, r.RequestURI = target, target.RequestURI()
	r.Header = http.Header{}

	_, err = p.page.Answer(path, seen, func(w http.ResponseWriter) { p.server.routed.ServeHTTP(w, r) })

	return err
}
