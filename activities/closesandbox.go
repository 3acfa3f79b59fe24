package activities

import (
	"context"
	"errors"
)

// CloseSandbox destroys the attempt's sandboxes and forgets its gateway route; of what is gone it is a no-op. It does all it
// can before it reports what it could not.
func (a *Activities) CloseSandbox(ctx context.Context, in CloseInput) error {
	ctx, over, err := a.alone(ctx, in.Target)
	if err != nil {
		return err
	}
	defer over()
	return errors.Join(
		a.o.Gateway.Close(ctx, in.SandboxID()), // first: it would dial a dead sandbox again and again
		a.o.Backend.Destroy(ctx, in.SandboxID()),
		a.o.Backend.Destroy(ctx, in.VerifierID()),
	)
}
