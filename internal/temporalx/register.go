package temporalx

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// Operator is the part of Temporal's operator service that registration needs;
// client.Client.OperatorService() implements it.
type Operator interface {
	ListSearchAttributes(
		context.Context,
		*operatorservice.ListSearchAttributesRequest,
		...grpc.CallOption,
	) (*operatorservice.ListSearchAttributesResponse, error)
	AddSearchAttributes(
		context.Context,
		*operatorservice.AddSearchAttributesRequest,
		...grpc.CallOption,
	) (*operatorservice.AddSearchAttributesResponse, error)
}

// Counter counts workflows of its namespace; client.Client is one.
type Counter interface {
	CountWorkflow(
		context.Context,
		*workflowservice.CountWorkflowExecutionsRequest,
	) (*workflowservice.CountWorkflowExecutionsResponse, error)
}

// Register adds the search attributes of rollouts to the namespace; rollouts cannot start without them. It
// is safe to run at every start and in several processes at once. A new namespace can have them from
// searchattr.Types instead. Temporal reads a namespace every 2 s; until it knows new attributes, the error
// is a fault.Unavailable.
func Register(ctx context.Context, op Operator, workflows Counter, namespace string) error {
	if err := addMissing(ctx, op, namespace); err != nil {
		return err
	}
	// matches nothing, and has an index
	query := "WorkflowId = ''"
	for _, name := range slices.Sorted(maps.Keys(searchattr.Types())) {
		query += " AND " + name + " IS NULL"
	}

	_, err := workflows.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: namespace,
		Query:     query,
	})

	return fault.Wrap(serviceKind(err), err, "query the search attributes of namespace %q", namespace)
}

// addMissing adds the attributes that the namespace lacks.
func addMissing(ctx context.Context, op Operator, namespace string) error {
	have, err := op.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fault.Wrap(serviceKind(err), err, "list search attributes of namespace %q", namespace)
	}

	missing, err := lacking(have.GetCustomAttributes())
	if err != nil || len(missing) == 0 {
		return err
	}

	_, err = op.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace:        namespace,
		SearchAttributes: missing,
	})

	var exists *serviceerror.AlreadyExists
	if errors.As(err, &exists) {
		// another process added them first
		return nil
	}

	return fault.Wrap(serviceKind(err), err, "add search attributes to namespace %q", namespace)
}

// lacking returns the attributes that have lacks. An attribute with another type is an error that an
// operator must resolve.
func lacking(have map[string]enumspb.IndexedValueType) (map[string]enumspb.IndexedValueType, error) {
	missing := map[string]enumspb.IndexedValueType{}

	var wrong []string

	want := searchattr.Types()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch got, ok := have[name]; {
		case !ok:
			missing[name] = want[name]
		case got != want[name]:
			wrong = append(wrong, name+" must be "+want[name].String()+", got "+got.String())
		}
	}

	if len(wrong) > 0 {
		return nil, fault.New(fault.Conflict,
			"search attributes of another type: %s: remove them (temporal operator search-attribute remove)",
			strings.Join(wrong, "; "))
	}

	return missing, nil
}

// serviceKind is the kind of a Temporal service's error.
func serviceKind(err error) fault.Kind {
	var (
		notFound  *serviceerror.NotFound
		namespace *serviceerror.NamespaceNotFound
		denied    *serviceerror.PermissionDenied
	)
	switch {
	case errors.As(err, &notFound), errors.As(err, &namespace):
		return fault.NotFound
	case errors.As(err, &denied):
		return fault.Unauthorized
	default:
		return fault.Unavailable
	}
}
