package searchattr

import (
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Upsert sets search attributes of the workflow of ctx. It logs a failure: only lists lack them then.
func Upsert(ctx workflow.Context, l log.Logger, updates ...temporal.SearchAttributeUpdate) {
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		l.Warn("search attributes not set", "error", err)
	}
}
