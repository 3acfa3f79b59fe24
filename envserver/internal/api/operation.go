package api

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/swaggest/openapi-go"

	"github.com/rolloutd/rolloutd/envserver/internal/reply"
)

// Operation describes a route by the Go types that it reads and answers with.
type Operation struct {
	ID, Tag, Summary string
	// Reads is a struct whose tags name the parameters and the members of the JSON body; nil: none.
	Reads any
	// NeedsBody: a request without a body is refused.
	NeedsBody bool
	// Answers is a Go type for a JSON answer, a Media for any other one, or an []any with several of these.
	Answers any
	// Status is the status of success; default 200.
	Status int
	// Refuses are the statuses of its errors, besides those that every route has.
	Refuses []int
}

// BodyErrors returns the error statuses of a route with a body, and more.
func BodyErrors(more ...int) []int {
	return append([]int{
		http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusServiceUnavailable,
	}, more...)
}

// EngineErrors returns the error statuses of a route that needs a session or the engine, and more.
func EngineErrors(more ...int) []int { return append([]int{http.StatusServiceUnavailable}, more...) }

// Media is the answer of a route that is not JSON.
type Media string

// describe writes the operation into the document, without the answers to requests that it refuses.
func (o Operation) describe(oc openapi.OperationContext, secured bool) {
	oc.SetID(o.ID)
	oc.SetTags(o.Tag)
	oc.SetSummary(o.Summary)

	if o.Reads != nil {
		oc.AddReqStructure(o.Reads)
	}

	answer := []openapi.ContentOption{
		openapi.WithHTTPStatus(cmp.Or(o.Status, http.StatusOK)), described("Successful Response"),
	}

	forms, several := o.Answers.([]any)
	if !several {
		forms = []any{o.Answers}
	}

	for _, form := range forms {
		if m, ok := form.(Media); ok {
			oc.AddRespStructure("", append(slices.Clone(answer), openapi.WithContentType(string(m)))...)
			continue
		}

		oc.AddRespStructure(form, slices.Clone(answer)...)
	}

	if secured {
		oc.AddSecurity(bearer)
		oc.AddSecurity(basic)
	}
}

// refusals returns the statuses of all errors of the route.
func (o Operation) refusals(secured bool) []int {
	all := append(slices.Clone(o.Refuses), http.StatusInternalServerError)
	if secured {
		all = append(all, http.StatusUnauthorized)
	}

	return all
}

// describeRefusal writes the answer with the status of an error into the document.
func describeRefusal(oc openapi.OperationContext, status int) {
	var body any = reply.Problem{}
	if status == http.StatusUnprocessableEntity {
		body = reply.Invalid{}
	}

	oc.AddRespStructure(body, openapi.WithHTTPStatus(status), described(http.StatusText(status)))
}

func described(text string) openapi.ContentOption {
	return func(c *openapi.ContentUnit) { c.Description = text }
}
