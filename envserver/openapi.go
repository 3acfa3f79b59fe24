package envserver

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	schema "github.com/google/jsonschema-go/jsonschema"
	"github.com/swaggest/jsonschema-go"
	"github.com/swaggest/openapi-go"
	"github.com/swaggest/openapi-go/openapi31"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// Names of the two ways to carry a token, in the document.
const bearer, basic = "bearer", "basic"

// openAPI answers with the description of the HTTP routes; WebSockets have no place in it.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) {
	writeBytes(w, http.StatusOK, s.described)
}

// describe makes the document from the table of routes and the Go types in it.
func (s *Server) describe() (encoded, error) {
	r := openapi31.NewReflector()
	r.DefaultOptions = append(r.DefaultOptions, jsonschema.InterceptDefName(componentName), jsonschema.InterceptProp(always), jsonschema.InterceptProp(orNull), envelop)
	r.AddTypeMapping(new(observation), jsonschema.AnyOf(toolsObservation{}, callObservation{}))
	r.AddTypeMapping(jsonrpc.Response{}, jsonschema.AnyOf(jsonrpc.Success{}, jsonrpc.Failure{}))
	r.AddTypeMapping(tools.RolloutArgs{}, rolloutArguments{s.tools.Start().InputSchema})
	r.AddTypeMapping(schema.Schema{}, map[string]any{})
	r.AddTypeMapping(invalid{}, jsonschema.AnyOf(validationProblem{}, problem{}))
	r.Spec.Info.WithTitle("OpenEnv Environment HTTP API").WithVersion("1.0.0").WithDescription(s.o.Description)
	r.Spec.SetHTTPBearerTokenSecurity(bearer, "", "one of the server's tokens")
	r.Spec.SetHTTPBasicSecurity(basic, "the token as the password, for clients that can send no header of their own")
	for _, rt := range s.routes() {
		if rt.says == nil {
			continue
		}
		if err := s.add(r, rt); err != nil {
			return nil, fmt.Errorf("describe %s %s: %w", rt.method, rt.path, err)
		}
	}
	return pyjson.Encode(r.Spec)
}

func (s *Server) add(r *openapi31.Reflector, rt route) error {
	oc, err := r.NewOperationContext(rt.method, rt.path)
	if err != nil {
		return err
	}
	rt.says.describe(oc, len(s.o.Tokens) > 0 && !open(rt.path))
	if err := r.AddOperation(oc); err != nil {
		return err
	}
	item := r.Spec.Paths.MapOfPathItemValues[rt.path]
	op, err := item.Operation(rt.method)
	if err != nil {
		return err
	}
	op.MapOfAnything = nil // extensions of the library's own, which other tools do not know
	if rt.says.needsBody {
		op.RequestBody.RequestBody.WithRequired(true)
	}
	return nil
}

// componentName is a Go type's name in the document: the reference's, where that has one.
func componentName(t reflect.Type, fallback string) string {
	switch t {
	case reflect.TypeFor[session.State]():
		return "State"
	case reflect.TypeFor[issue.Issue]():
		return "ValidationError"
	case reflect.TypeFor[validationProblem]():
		return "HTTPValidationError"
	case reflect.TypeFor[problem]():
		return "Error"
	case reflect.TypeFor[tools.Started]():
		return "RolloutStarted"
	}
	return strings.TrimPrefix(fallback, "Envserver")
}

// envelop writes members that may be null as one of two schemas: beside a reference the library would lose the null.
func envelop(rc *jsonschema.ReflectContext) { rc.EnvelopNullability = true }

// orNull takes away the type that the library leaves beside the two schemas of such a member, and which forbids the null.
func orNull(p jsonschema.InterceptPropParams) error {
	if p.Processed && len(p.PropertySchema.AnyOf) > 0 {
		p.PropertySchema.Type = nil
	}
	return nil
}

// always marks the members of an answer that are never left out as required.
func always(p jsonschema.InterceptPropParams) error {
	oc, ok := openapi.OperationCtx(p.Context)
	if !ok || !oc.IsProcessingResponse() || !p.Processed {
		return nil
	}
	if !strings.Contains(p.Field.Tag.Get("json"), ",omitempty") && !slices.Contains(p.ParentSchema.Required, p.Name) {
		p.ParentSchema.Required = append(p.ParentSchema.Required, p.Name)
	}
	return nil
}
