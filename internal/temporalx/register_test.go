package temporalx_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// operator holds a namespace's attributes.
type operator struct {
	have map[string]enumspb.IndexedValueType
	adds int
	err  error

	// the server has not read the namespace again
	stale bool
}

func (o *operator) CountWorkflow(
	_ context.Context,
	in *workflowservice.CountWorkflowExecutionsRequest,
) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	for name := range o.have {
		if o.stale && strings.Contains(in.Query, name) {
			return nil, serviceerror.NewInvalidArgument("invalid search attribute: " + name)
		}
	}

	return &workflowservice.CountWorkflowExecutionsResponse{}, nil
}

func (o *operator) ListSearchAttributes(
	context.Context,
	*operatorservice.ListSearchAttributesRequest,
	...grpc.CallOption,
) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: maps.Clone(o.have)}, nil
}

func (o *operator) AddSearchAttributes(
	_ context.Context,
	in *operatorservice.AddSearchAttributesRequest,
	_ ...grpc.CallOption,
) (*operatorservice.AddSearchAttributesResponse, error) {
	o.adds++
	if o.err != nil {
		return nil, o.err
	}

	maps.Copy(o.have, in.SearchAttributes)

	return &operatorservice.AddSearchAttributesResponse{}, nil
}

func TestRegisterAddsWhatIsMissingOnce(t *testing.T) {
	t.Parallel()

	op := &operator{have: map[string]enumspb.IndexedValueType{
		searchattr.NameTask: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"Theirs":            enumspb.INDEXED_VALUE_TYPE_BOOL,
	}}
	for range 2 {
		require.NoError(t, temporalx.Register(t.Context(), op, op, "default"))
	}

	require.Equal(t, 1, op.adds)
	require.Subset(t, op.have, searchattr.Types())
}

// Register succeeds only when the server knows the attributes, whichever process added them.
func TestRegisterUntilTheServerKnowsTheAttributes(t *testing.T) {
	t.Parallel()

	op := &operator{have: map[string]enumspb.IndexedValueType{}, stale: true}
	for range 2 {
		err := temporalx.Register(t.Context(), op, op, "default")
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	}

	op.stale = false
	require.NoError(t, temporalx.Register(t.Context(), op, op, "default"))
	require.Equal(t, 1, op.adds)
}

func TestRegisterRefusesAnotherType(t *testing.T) {
	t.Parallel()

	op := &operator{have: map[string]enumspb.IndexedValueType{searchattr.NameReward: enumspb.INDEXED_VALUE_TYPE_TEXT}}
	err := temporalx.Register(t.Context(), op, op, "default")
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.ErrorContains(t, err, searchattr.NameReward)
	require.Zero(t, op.adds)
}

func TestRegisterErrors(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		err  error
		want fault.Kind
	}{
		{serviceerror.NewAlreadyExists("raced"), ""},
		{serviceerror.NewNamespaceNotFound("default"), fault.NotFound},
		{serviceerror.NewPermissionDenied("no", ""), fault.Unauthorized},
		{serviceerror.NewUnavailable("down"), fault.Unavailable},
	} {
		op := &operator{have: map[string]enumspb.IndexedValueType{}, err: c.err}
		require.Equal(t, c.want, fault.KindOf(temporalx.Register(t.Context(), op, op, "default")))
	}
}
