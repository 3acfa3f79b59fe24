package envserver

import (
	"net/http"
	"slices"

	"github.com/swaggest/openapi-go"
)

// operation describes a route by the Go types that it reads and answers with.
type operation struct {
	id, tag, summary string
	// reads is a struct whose tags name the parameters and the members of the JSON body; nil: it reads nothing.
	reads any
	// needsBody says that nothing can be made of a request without a body.
	needsBody bool
	// answers is the JSON answer, or the media types of an answer that is none.
	answers any
	// status is what it answers when all is well; default 200.
	status int
	// refuses are the statuses of its error bodies, besides those that every route has.
	refuses []int
}

// unread are the refusals of a route with a body, whatever is in it, and more.
func unread(more ...int) []int {
	return append([]int{http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable}, more...)
}

// unserved are the refusals of a route that needs a session or the engine, and more.
func unserved(more ...int) []int { return append([]int{http.StatusServiceUnavailable}, more...) }

// media is the answer of a route that is not JSON.
type media string

// describe writes the operation into the document.
func (o operation) describe(oc openapi.OperationContext, secured bool) {
	oc.SetID(o.id)
	oc.SetTags(o.tag)
	oc.SetSummary(o.summary)
	if o.reads != nil {
		oc.AddReqStructure(o.reads)
	}
	answer := []openapi.ContentOption{openapi.WithHTTPStatus(or(o.status, http.StatusOK)), described("Successful Response")}
	switch a := o.answers.(type) {
	case media:
		oc.AddRespStructure("", append(answer, openapi.WithContentType(string(a)))...)
	case []media:
		for _, m := range a {
			oc.AddRespStructure("", append(slices.Clone(answer), openapi.WithContentType(string(m)))...)
		}
	default:
		oc.AddRespStructure(a, answer...)
	}
	refuses := append(slices.Clone(o.refuses), http.StatusInternalServerError)
	if secured {
		oc.AddSecurity(bearer)
		oc.AddSecurity(basic)
		refuses = append(refuses, http.StatusUnauthorized)
	}
	for _, status := range refuses {
		var body any = problem{}
		if status == http.StatusUnprocessableEntity {
			body = invalid{}
		}
		oc.AddRespStructure(body, openapi.WithHTTPStatus(status), described(http.StatusText(status)))
	}
}

func described(text string) openapi.ContentOption {
	return func(c *openapi.ContentUnit) { c.Description = text }
}
