package api

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	schema "github.com/google/jsonschema-go/jsonschema"
	"github.com/swaggest/jsonschema-go"
	"github.com/swaggest/openapi-go"
	"github.com/swaggest/openapi-go/openapi31"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Names of the two authentication schemes in the document.
const bearer, basic = "bearer", "basic"

// Document is the input of the OpenAPI document.
type Document struct {
	Description string
	Routes      []Route
	// Start is the schema of the arguments that start a rollout.
	Start *schema.Schema
	// Group is the schema of the arguments that start a group; nil where there are no groups.
	Group *schema.Schema
	// Secured reports whether a path needs a token.
	Secured func(path string) bool
}

// Encode makes the document from the table of routes and their Go types. OpenAPI cannot describe WebSockets.
func (d Document) Encode() (reply.Encoded, error) {
	r := openapi31.NewReflector()
	r.DefaultOptions = append(
		r.DefaultOptions,
		jsonschema.InterceptDefName(componentName),
		jsonschema.InterceptProp(requirePresent),
		jsonschema.InterceptProp(dropTypeBesideAnyOf),
		nullableByAnyOf,
	)
	r.AddTypeMapping(new(reply.Observation), jsonschema.AnyOf(reply.ToolsObservation{}, reply.CallObservation{}))
	r.AddTypeMapping(jsonrpc.Response{}, jsonschema.AnyOf(jsonrpc.Success{}, jsonrpc.Failure{}))
	r.AddTypeMapping(tools.RolloutArgs{}, rolloutArguments{d.Start})

	if d.Group != nil {
		r.AddTypeMapping(tools.GroupArgs{}, groupArguments{d.Group})
	}

	r.AddTypeMapping(TrainingData{}, jsonschema.AnyOf(formats.Atropos{}, formats.TRL{}))
	r.AddTypeMapping(sequence.Mask{}, []int{})
	r.AddTypeMapping(schema.Schema{}, map[string]any{})
	r.AddTypeMapping(reply.Invalid{}, jsonschema.AnyOf(reply.ValidationProblem{}, reply.Problem{}))
	r.Spec.Info.WithTitle("OpenEnv Environment HTTP API").WithVersion("1.0.0").WithDescription(d.Description)
	r.Spec.SetHTTPBearerTokenSecurity(bearer, "", "token of the server")
	r.Spec.SetHTTPBasicSecurity(basic, "token as the password, for clients that cannot set headers")

	refusals := map[int]openapi31.ResponseOrReference{}

	for _, rt := range d.Routes {
		if rt.Operation == nil {
			continue
		}

		if err := d.addRoute(r, refusals, rt); err != nil {
			return nil, fmt.Errorf("describe %s %s: %w", rt.Method, rt.Path, err)
		}
	}

	return jsonvalue.Encode(r.Spec)
}

// addRoute adds a route to the document. It describes the answer of each status of an error once, for all routes: to
// describe them anew for every route takes nearly as long as all else.
func (d Document) addRoute(r *openapi31.Reflector, refusals map[int]openapi31.ResponseOrReference, rt Route) error {
	oc, err := r.NewOperationContext(rt.Method, rt.Path)
	if err != nil {
		return err
	}

	secured := d.Secured(rt.Path)
	rt.Operation.describe(oc, secured)

	for _, status := range rt.Operation.refusals(secured) {
		if _, known := refusals[status]; !known {
			describeRefusal(oc, status)
		}
	}

	if err := r.AddOperation(oc); err != nil {
		return err
	}

	item := r.Spec.Paths.MapOfPathItemValues[rt.Path]

	op, err := item.Operation(rt.Method)
	if err != nil {
		return err
	}

	for _, status := range rt.Operation.refusals(secured) {
		key := strconv.Itoa(status)
		if _, known := refusals[status]; !known {
			refusals[status] = op.Responses.MapOfResponseOrReferenceValues[key]
		}

		op.Responses.WithMapOfResponseOrReferenceValuesItem(key, refusals[status])
	}

	// extensions of this library that other tools do not know
	op.MapOfAnything = nil
	if rt.Operation.NeedsBody {
		op.RequestBody.RequestBody.WithRequired(true)
	}

	return nil
}

// componentNames are the names of Go types in the document that are not made of package and type: those of
// the reference server where it has the type, and those of producers, whose names in generated clients must
// not change.
var componentNames = map[reflect.Type]string{
	reflect.TypeFor[session.State]():           "State",
	reflect.TypeFor[validation.Issue]():        "ValidationError",
	reflect.TypeFor[validation.List]():         "IssueList",
	reflect.TypeFor[reply.ValidationProblem](): "HTTPValidationError",
	reflect.TypeFor[reply.Problem]():           "Error",
	reflect.TypeFor[tools.Started]():           "RolloutStarted",
	reflect.TypeFor[producer.State]():          "RolloutProducerState",
	reflect.TypeFor[producer.Page]():           "RolloutProducerPage",
	reflect.TypeFor[producer.Bounds]():         "RolloutProducerBounds",
	reflect.TypeFor[producer.Counts]():         "RolloutProducerCounts",
	reflect.TypeFor[producer.Cursor]():         "RolloutCursor",
	reflect.TypeFor[producer.RunningGroup]():   "RolloutRunningGroup",
	reflect.TypeFor[producer.Finished]():       "RolloutFinished",
	reflect.TypeFor[producer.Evaluation]():     "RolloutEvaluation",
}

// componentName returns a Go type's name in the document.
func componentName(t reflect.Type, fallback string) string {
	if name, ok := componentNames[t]; ok {
		return name
	}

	for _, pkg := range []string{"Envserver", "Reply", "Rest", "Api"} {
		fallback = strings.TrimPrefix(fallback, pkg)
	}

	return fallback
}

// nullableByAnyOf makes the library write nullable members as anyOf: beside a reference it would lose the null.
func nullableByAnyOf(rc *jsonschema.ReflectContext) { rc.EnvelopNullability = true }

// dropTypeBesideAnyOf removes the type that the library writes beside the anyOf of a nullable member,
// because it forbids the null.
func dropTypeBesideAnyOf(p jsonschema.InterceptPropParams) error {
	if p.Processed && len(p.PropertySchema.AnyOf) > 0 {
		p.PropertySchema.Type = nil
	}

	return nil
}

// requirePresent marks the members of an answer that are never omitted as required.
func requirePresent(p jsonschema.InterceptPropParams) error {
	oc, ok := openapi.OperationCtx(p.Context)
	if !ok || !oc.IsProcessingResponse() || !p.Processed {
		return nil
	}

	if !strings.Contains(p.Field.Tag.Get("json"), ",omitempty") && !slices.Contains(p.ParentSchema.Required, p.Name) {
		p.ParentSchema.Required = append(p.ParentSchema.Required, p.Name)
	}

	return nil
}

// TrainingData stands in the document for the formats of training sequences that are one JSON object.
type TrainingData struct{}

// rolloutArguments stands for tools.RolloutArgs in the document, which describes them by the schema that
// the tools publish.
type rolloutArguments struct{ schema *schema.Schema }

// JSONSchemaBytes returns the schema to the OpenAPI library.
func (a rolloutArguments) JSONSchemaBytes() ([]byte, error) { return a.schema.MarshalJSON() }

// groupArguments stands for tools.GroupArgs in the same way. It is a type of its own because the document
// names schemas by type.
type groupArguments struct{ schema *schema.Schema }

// JSONSchemaBytes returns the schema to the OpenAPI library.
func (a groupArguments) JSONSchemaBytes() ([]byte, error) { return a.schema.MarshalJSON() }
